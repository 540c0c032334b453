// SPDX-License-Identifier: GPL-2.0-only
// The modelled machine's storage device: the NVMe controller (nvme/controller.hh) behind a PCI
// function of QEMU, its traffic in the hardware model, its interrupts in the vCPUs' time.
#ifndef DRFQ_PLUGIN_NVME_DEVICE_HH
#define DRFQ_PLUGIN_NVME_DEVICE_HH

#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <string>

#include "nvme/controller.hh"
#include "vcpu_scheduler.hh"
#include "vfio_user_server.hh"

namespace drfq::plugin {

class NvmeDevice : public VcpuScheduler::Device {
 public:
  /// socket: where QEMU finds the function. log: gets a line for each I/O command; may be null.
  /// Throws std::runtime_error.
  NvmeDevice(hardware::HardwareModel &, VcpuScheduler &, const std::string &socket,
             std::unique_ptr<std::ostream> log);

  /// Simulated time has started: the driver may find the device from now on.
  void appear();

  /// Whether the guest's accesses to this address must be reported.
  bool contains(std::uint64_t physical) const {
    const std::uint64_t base = function_.address();
    return base != 0 && physical - base < kFunctionBytes;
  }
  /// The guest stored a value there. insns: that the vCPU has retired.
  void stored(Vcpu &, std::uint64_t physical, unsigned bytes, std::uint64_t value,
              std::uint64_t insns);

  void finish(Vcpu &, const hardware::FinishedTransfer &, Ps now) override;

 private:
  class Port;
  struct Message {
    std::uint64_t address = 0;
    std::uint32_t data = 0, control = 0;
  };
  static constexpr std::uint32_t kMasked = 1;

  bool read_message(Vcpu &, unsigned vector, Message *) const;
  void interrupt(Vcpu &, unsigned vector, Ps now);
  void write_log(const nvme::Controller::Record &, const hardware::FinishedTransfer &, Ps now);

  hardware::HardwareModel &hardware_;
  VcpuScheduler &scheduler_;
  std::unique_ptr<nvme::Disk> disk_;
  VfioUserServer function_;
  // Held while QEMU's lock is taken. The server's thread, which QEMU waits for, never takes it.
  std::mutex mutex_;
  nvme::Controller controller_;
  std::set<unsigned> pending_;  // vectors that were masked when they should have been raised
  const std::unique_ptr<std::ostream> log_;
};

}  // namespace drfq::plugin

#endif
