// SPDX-License-Identifier: GPL-2.0-only
#include "nvme_device.hh"

#include <cstring>
#include <utility>

#include "apic.hh"

namespace drfq::plugin {
namespace {

constexpr std::uint32_t kNvmeClass = 0x010802;
constexpr std::uint64_t kMessageBytes = 16, kMessageControl = 12;

std::unique_ptr<nvme::Disk> open_disk(const hardware::StorageConfig &s) {
  return s.file.empty() ? std::make_unique<nvme::Disk>(s.bytes)
                        : std::make_unique<nvme::Disk>(s.file);
}

bool read_physical(Vcpu &vcpu, std::uint64_t address, void *to, std::size_t bytes) {
  g_byte_array_set_size(vcpu.buffer, 0);
  if (qemu_plugin_read_memory_hwaddr(address, vcpu.buffer, bytes) != 0) return false;
  std::memcpy(to, vcpu.buffer->data, bytes);
  return true;
}

bool write_physical(Vcpu &vcpu, std::uint64_t address, const void *from, std::size_t bytes) {
  g_byte_array_set_size(vcpu.buffer, 0);
  g_byte_array_append(vcpu.buffer, static_cast<const std::uint8_t *>(from),
                      static_cast<unsigned>(bytes));
  return qemu_plugin_write_memory_hwaddr(address, vcpu.buffer) == 0;
}

}  // namespace

/// The controller's access to the machine from the thread of a vCPU.
class NvmeDevice::Port final : public nvme::Controller::Port {
 public:
  Port(NvmeDevice &device, Vcpu &vcpu, std::uint64_t insns)
      : device_(device), vcpu_(vcpu), insns_(insns) {}

  bool read(std::uint64_t address, void *to, std::size_t bytes) override {
    return read_physical(vcpu_, address, to, bytes);
  }
  bool write(std::uint64_t address, const void *from, std::size_t bytes) override {
    return write_physical(vcpu_, address, from, bytes);
  }
  void start(std::uint64_t id, Dir dir, const std::vector<hardware::Segment> &segments,
             unsigned vector) override {
    Message m;
    hardware::Transfer t{id, dir, segments, 0};
    if (device_.read_message(vcpu_, vector, &m)) t.target = device_.scheduler_.target(m.address);
    device_.hardware_.start_transfer(vcpu_.index, insns_, std::move(t));
    // The hardware model learns of it at the turn.
    vcpu_.request_turn();
  }
  void cancel() override {
    device_.hardware_.cancel_transfers();
    device_.pending_.clear();
  }

 private:
  NvmeDevice &device_;
  Vcpu &vcpu_;
  const std::uint64_t insns_;
};

NvmeDevice::NvmeDevice(hardware::HardwareModel &hardware, VcpuScheduler &scheduler,
                       const std::string &socket, std::unique_ptr<std::ostream> log)
    : hardware_(hardware),
      scheduler_(scheduler),
      disk_(open_disk(hardware.description().storage)),
      function_(socket, kNvmeClass, hardware.description().storage.queues + 1),
      controller_(*disk_, hardware.description().storage.queues, function_.memory()),
      log_(std::move(log)) {
  if (log_ != nullptr)
    *log_ << "queue,cid,opcode,lba,bytes,status,pid,started_ps,due_ps,signalled_ps\n";
}

void NvmeDevice::appear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  controller_.appear();
}

void NvmeDevice::stored(Vcpu &vcpu, std::uint64_t physical, unsigned bytes, std::uint64_t value,
                        std::uint64_t insns) {
  const std::uint64_t offset = physical - function_.address();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (offset < nvme::Controller::kRegisterBytes) {
    Port port(*this, vcpu, insns);
    return controller_.stored(offset, bytes, value, port);
  }
  if (offset < kMsixTable) return;
  // The control word may be a part of a wider store.
  const std::uint64_t in_entry = offset % kMessageBytes;
  if (in_entry > kMessageControl || in_entry + bytes <= kMessageControl) return;
  const auto vector = static_cast<unsigned>((offset - kMsixTable) / kMessageBytes);
  if (pending_.erase(vector) != 0)
    interrupt(vcpu, vector, hardware_.now(vcpu.index, vcpu.with_pauses(insns)));
}

void NvmeDevice::finish(Vcpu &vcpu, const hardware::FinishedTransfer &t, Ps now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Port port(*this, vcpu, vcpu.retired().total());
  const nvme::Controller::Finished done = controller_.finished(t.id, port);
  if (done.record.has_value() && log_ != nullptr) write_log(*done.record, t, now);
  if (done.vector.has_value()) interrupt(vcpu, *done.vector, now);
}

bool NvmeDevice::read_message(Vcpu &vcpu, unsigned vector, Message *m) const {
  return read_physical(vcpu, function_.address() + kMsixTable + kMessageBytes * vector, m,
                       sizeof *m);
}

/// Raises an interrupt, or keeps it until the guest unmasks its vector.
void NvmeDevice::interrupt(Vcpu &vcpu, unsigned vector, Ps now) {
  Message m;
  if (!read_message(vcpu, vector, &m)) return;
  if ((m.control & kMasked) != 0) {
    pending_.insert(vector);
    return;
  }
  scheduler_.interrupts(m.address, now);
  write_physical(vcpu, m.address, &m.data, sizeof m.data);
}

void NvmeDevice::write_log(const nvme::Controller::Record &r, const hardware::FinishedTransfer &t,
                           Ps now) {
  *log_ << r.queue << ',' << r.cid << ',' << unsigned{r.opcode} << ',' << r.lba << ',' << r.bytes
        << ',' << static_cast<unsigned>(r.status) << ',' << t.pid << ',' << t.started << ','
        << t.due << ',' << now << std::endl;
}

}  // namespace drfq::plugin
