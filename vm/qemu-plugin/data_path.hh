// SPDX-License-Identifier: GPL-2.0-only
// Passes the guest's data accesses to the hardware model.
#ifndef DRFQ_PLUGIN_DATA_PATH_HH
#define DRFQ_PLUGIN_DATA_PATH_HH

#include <atomic>

#include "vcpu.hh"
#include "vcpu_scheduler.hh"

namespace drfq::plugin {

class NvmeDevice;

class DataPath {
 public:
  DataPath(hardware::HardwareModel &m, VcpuScheduler &s) : hardware_(m), scheduler_(s) {}

  /// Reports stores to the device's registers. Call it before the machine goes live.
  void attach(NvmeDevice *device) { device_ = device; }

  /// One access at a virtual address. insns: instructions retired, this one included.
  void access(Vcpu &vcpu, qemu_plugin_meminfo_t info, std::uint64_t address,
              hardware::AccessKind kind, std::uint64_t insns, Ring ring) {
    const std::uint64_t line = address / hardware::kLineBytes;
    std::uint64_t &last = vcpu.last_line[static_cast<unsigned>(kind)];
    // A second access of the same kind to one line is a hit, unless another kind has missed since.
    // The longest access has 16 bytes.
    const bool inside = address % hardware::kLineBytes <= hardware::kLineBytes - 16;
    // Of those that bypass the caches, each byte counts.
    const bool bypasses = kind == hardware::AccessKind::streaming && hardware_.stores_stream();
    if (line == last && inside && !bypasses) return;
    last = line;
    const std::uint64_t page = address >> 12;
    const Vcpu::Page &known = vcpu.pages[page % Vcpu::kPages];
    if (known.virtual_page != page || !inside) return slow(vcpu, info, address, kind, insns, ring);
    const unsigned bytes = bypasses ? 1u << qemu_plugin_mem_size_shift(info) : 1;
    to_cache(vcpu, known.physical | (address & 0xfff), bytes, kind, insns, ring);
  }

  /// Increases whenever the hardware model may watch other pages than before.
  std::uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  void to_cache(Vcpu &vcpu, std::uint64_t physical, unsigned bytes, hardware::AccessKind kind,
                std::uint64_t insns, Ring ring) {
    using hardware::AccessResult;
    const AccessResult result = hardware_.access(vcpu.index, insns, physical, bytes, kind, ring);
    if (result == AccessResult::hit) return;
    // The line may have taken the place of another kind's last one.
    const std::uint64_t own = vcpu.last_line[static_cast<unsigned>(kind)];
    vcpu.forget_lines();
    vcpu.last_line[static_cast<unsigned>(kind)] = own;
    if (result == AccessResult::sync) vcpu.request_turn();
  }
  void slow(Vcpu &, qemu_plugin_meminfo_t, std::uint64_t address, hardware::AccessKind,
            std::uint64_t insns, Ring);
  void watched(Vcpu &, qemu_plugin_meminfo_t, std::uint64_t physical, hardware::AccessKind,
               std::uint64_t insns, Ring);

  hardware::HardwareModel &hardware_;
  VcpuScheduler &scheduler_;
  NvmeDevice *device_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};
};

}  // namespace drfq::plugin

#endif
