// SPDX-License-Identifier: GPL-2.0-only
#include "pci_registers.hh"

namespace drfq::hardware {

// The guest may read the page at any time, so each value is published by a single store.
void PciRegisters::publish(std::uint64_t offset, std::uint64_t value) {
  if (page_ != nullptr && offset / 8 < kBytes / 8)
    __atomic_store_n(&page_[offset / 8], value, __ATOMIC_RELAXED);
}

void PciRegisters::restore(std::uint64_t offset, const RegisterFile &regs) {
  std::uint64_t value = 0;
  if (offset == mailbox::kFeatures)
    value = std::uint64_t{has_mailbox_} << mailbox::kFeatureBit;
  else if (offset == mailbox::kAddress)
    value = mailbox_page_;
  else
    regs.peek(offset, &value);
  publish(offset, value);
}

void PciRegisters::attach(std::uint64_t *page, const RegisterFile &regs) {
  page_ = page;
  for (std::uint64_t o = 0; o < kBytes; o += 8) restore(o, regs);
}

std::vector<RegisterWrite> PciRegisters::bar_stored(std::uint64_t offset, unsigned bytes,
                                                    std::uint64_t value, const RegisterFile &regs) {
  if (offset % 8 == 0 && bytes == 8) {
    if (has_mailbox_ && offset == mailbox::kAddress && value % kMailboxPageBytes == 0) {
      publish(offset, value);
      // Cores may have labels on a page that is announced again, and need not store them again.
      if (value == mailbox_page_) return {};
      mailbox_page_ = value;
      return forget_labels();
    }
    // RegisterFile::write() applies the same rules when the write is played back.
    const bool pid = offset > mmio::kVtimePid && offset < mmio::kVtimePid + 8 * kPids;
    const std::uint64_t n = 8 * std::uint64_t{regs.cores()};
    const bool vtime = offset >= mmio::kVtimeCore && offset < mmio::kVtimeCore + n;
    const bool core = offset >= mmio::kPidCore && offset < mmio::kPidCore + n && value < kPids;
    if (pid || vtime || core) {
      publish(offset, value);
      return {{offset, value}};
    }
  }
  restore(offset & ~std::uint64_t{7}, regs);
  if (bytes != 0) restore((offset + bytes - 1) & ~std::uint64_t{7}, regs);
  return {};
}

std::vector<RegisterWrite> PciRegisters::mailbox_stored(std::uint64_t offset, unsigned bytes,
                                                        std::uint64_t value) {
  const std::uint64_t core = offset / mailbox::kLabelBytes, word = offset % mailbox::kLabelBytes;
  if (offset >= kMailboxPageBytes || core >= labels_.size()) return {};
  CoreLabel &label = labels_[core];
  if (bytes != 8 || word % 8 != 0) {
    // No scheduler stores so: the page belongs to something else now.
    label.valid = 0;
  } else if (word == mailbox::kLabelValid) {
    label.valid = value;
  } else if (word == mailbox::kLabelPid) {
    label.pid = value;
  } else if (word == mailbox::kLabelVtime) {
    label.vtime = value;
  } else {
    return {};
  }
  return publish_label(core);
}

std::vector<RegisterWrite> PciRegisters::publish_label(std::uint64_t core) {
  const CoreLabel &label = labels_[core];
  const RegisterWrite pid{mmio::kPidCore + 8 * core, label.counts() ? label.pid : 0};
  const RegisterWrite vtime{mmio::kVtimeCore + 8 * core, label.counts() ? label.vtime : 0};
  publish(pid.offset, pid.value);
  publish(vtime.offset, vtime.value);
  return {vtime, pid};
}

std::vector<RegisterWrite> PciRegisters::forget_labels() {
  std::vector<RegisterWrite> out;
  for (std::uint64_t core = 0; core < labels_.size(); core++) {
    const bool counted = labels_[core].counts();
    labels_[core] = {};
    // The registers of other cores may hold what was stored to them directly.
    if (!counted) continue;
    const std::vector<RegisterWrite> writes = publish_label(core);
    out.insert(out.end(), writes.begin(), writes.end());
  }
  return out;
}

void PciRegisters::bar_loaded(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                              RegisterFile *regs) {
  const bool traffic = offset >= mmio::kTraffic && offset < mmio::kTraffic + 8 * kPids;
  if (!traffic || offset % 8 != 0 || bytes != 8) return;
  const Pid pid = static_cast<Pid>((offset - mmio::kTraffic) / 8);
  std::uint64_t had = 0;
  regs->read(offset, &had);
  // Traffic that was charged after the guest's load stays for the next load. If had is less,
  // another core has loaded the same value and taken it, so all that there is was charged since.
  if (had != value) regs->count(pid, had > value ? had - value : had);
  publish_traffic({pid}, *regs);
}

void PciRegisters::publish_traffic(const std::vector<Pid> &pids, const RegisterFile &regs) {
  for (Pid p : pids) {
    publish(mmio::kTraffic + 8 * std::uint64_t{p}, regs.traffic(p));
    publish(mmio::kTrafficPeek + 8 * std::uint64_t{p}, regs.traffic(p));
  }
}

}  // namespace drfq::hardware
