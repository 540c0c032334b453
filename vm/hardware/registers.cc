// SPDX-License-Identifier: GPL-2.0-only
#include "registers.hh"

namespace drfq::machine {

// A guest may be reading the page: one store for each value.
void Registers::show(std::uint64_t offset, std::uint64_t value) {
  if (page_ != nullptr && offset / 8 < kBytes / 8)
    __atomic_store_n(&page_[offset / 8], value, __ATOMIC_RELAXED);
}

void Registers::restore(std::uint64_t offset, const RegisterFile &regs) {
  std::uint64_t value = 0;
  if (offset == kShadow)
    value = shadow_;
  else
    regs.peek(offset, &value);
  show(offset, value);
}

void Registers::attach(std::uint64_t *page, const RegisterFile &regs) {
  page_ = page;
  for (std::uint64_t o = 0; o < kBytes; o += 8) restore(o, regs);
}

RegisterWrite Registers::stored(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                                const RegisterFile &regs) {
  if (offset % 8 == 0 && bytes == 8) {
    if (offset == kShadow && value % kShadowBytes == 0) {
      shadow_ = value;
      show(offset, value);
      return {};
    }
    // As RegisterFile::write() will judge when the write is played back.
    const bool pid = offset > mmio::kVtimePid && offset < mmio::kVtimePid + 8 * kPids;
    const std::uint64_t n = 8 * std::uint64_t{regs.cores()};
    const bool vtime = offset >= mmio::kVtimeCore && offset < mmio::kVtimeCore + n;
    const bool core = offset >= mmio::kPidCore && offset < mmio::kPidCore + n && value < kPids;
    if (pid || vtime || core) {
      show(offset, value);
      return {true, offset, value};
    }
  }
  restore(offset & ~std::uint64_t{7}, regs);
  if (bytes != 0) restore((offset + bytes - 1) & ~std::uint64_t{7}, regs);
  return {};
}

RegisterWrite Registers::shadowed(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                                  std::uint32_t cores) {
  if (offset % 8 != 0 || bytes != 8 || offset >= kShadowBytes) return {};
  const bool vtime = offset >= kShadowVtime;
  const std::uint64_t core = offset % kShadowVtime / 8;
  if (core >= cores || (!vtime && value >= kPids)) return {};
  return {true, (vtime ? mmio::kVtimeCore : mmio::kPidCore) + 8 * core, value};
}

void Registers::loaded(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                       RegisterFile *regs) {
  const bool traffic = offset >= mmio::kTraffic && offset < mmio::kTraffic + 8 * kPids;
  if (!traffic || offset % 8 != 0 || bytes != 8) return;
  const Pid pid = static_cast<Pid>((offset - mmio::kTraffic) / 8);
  std::uint64_t had = 0;
  regs->read(offset, &had);
  // What came since the load is for the next one.
  if (had > value) regs->count(pid, had - value);
  charged({pid}, *regs);
}

void Registers::charged(const std::vector<Pid> &pids, const RegisterFile &regs) {
  for (Pid p : pids) {
    show(mmio::kTraffic + 8 * std::uint64_t{p}, regs.traffic(p));
    show(mmio::kTrafficPeek + 8 * std::uint64_t{p}, regs.traffic(p));
  }
}

}  // namespace drfq::machine
