// SPDX-License-Identifier: GPL-2.0-only
#include "emulate.hh"

#include <algorithm>

namespace drfq::plugin {

namespace {

constexpr std::uint32_t kMsrTsc = 0x10, kMsrTscAux = 0xc0000103;
constexpr std::uint64_t kPceOfCr4 = 1u << 8;

/// Whether reading or writing it is only right when everything up to now has been played.
bool counts(std::uint32_t msr) {
  return (msr >= 0xc1 && msr <= 0xc8) || (msr >= 0x186 && msr <= 0x18d) ||
         (msr >= 0x309 && msr <= 0x30b) || (msr >= 0x38d && msr <= 0x390) ||
         (msr >= 0x4c1 && msr <= 0x4c8) || msr == 0xc8e;
}

/// Address of the instruction. Code is translated for any place, so the page comes from
/// the register, which may still be that of the block's start.
std::uint64_t address(const Core &core, const Site &s) {
  const std::uint64_t ip = core.get(rip);
  std::uint64_t at = (ip & ~std::uint64_t{0xfff}) | s.offset;
  if (s.second_page && (ip & 0xfff) >= s.block_offset) at += 0x1000;
  return at;
}

Progress before(const Core &core, const Site &s) {
  return core.progress(s.counted ? s.left : 0, s.ring);
}
Progress behind(const Core &core, const Site &s) {
  return core.progress(s.counted ? s.left - 1 : 0, s.ring);
}

void answer(Core &core, std::uint64_t value) {
  core.set(rax, static_cast<std::uint32_t>(value));
  core.set(rdx, value >> 32);
}

void leave_block(Core &core, const Site &s, unsigned left) {
  if (s.counted) core.hot->insns[static_cast<unsigned>(s.ring)] -= left;
  core.hot->block = nullptr;
}

}  // namespace

void Emulator::skip(Core &core, const Site &s) {
  leave_block(core, s, s.left - 1);
  qemu_plugin_set_pc(address(core, s) + s.bytes);
}

void Emulator::again(Core &core, const Site &s) {
  leave_block(core, s, s.left);
  qemu_plugin_set_pc(address(core, s));
}

void Emulator::run(Special what, Core &core, const Site &s) {
  switch (what) {
    case Special::cpuid:
      return cpuid(core, s);
    case Special::rdmsr:
      return rdmsr(core, s);
    case Special::wrmsr:
      return wrmsr(core, s);
    case Special::rdpmc:
      return rdpmc(core, s);
    case Special::rdtsc:
      return rdtsc(core, s, false);
    case Special::rdtscp:
      return rdtsc(core, s, true);
    case Special::hlt:
      return hlt(core, s);
    case Special::clflush:
      return clflush(core, s);
    case Special::translation:
      return core.forget_pages();
    case Special::pause:
      core.pauses++;
      // A core that spins gives the others their turn early.
      core.hot->spent += kPauseInsns;
      return;
    case Special::none:
      return;
  }
}

void Emulator::cpuid(Core &core, const Site &s) {
  const auto leaf = static_cast<std::uint32_t>(core.get(rax));
  if (leaf == kMagicLive || leaf == kMagicReport) {
    if (leaf == kMagicLive && !host_.live()) host_.go_live(core.get(rcx));
    if (leaf == kMagicReport && host_.live()) {
      settle(core, s);
      machine_.settle(core.index, behind(core, s));
      host_.report();
    }
    core.set(rax, host_.live());
    core.set(rbx, kMagicAnswer);
    core.set(rcx, 0);
    core.set(rdx, 0);
    skip(core, s);
  }
  core.cpuid_leaf = leaf;
  core.cpuid_subleaf = static_cast<std::uint32_t>(core.get(rcx));
  core.cpuid_pending = true;
  // When the block ends here, the next one's turn amends the answer.
  if (s.last) core.hot->spent = kTurn;
}

void Emulator::amend_cpuid(Core &core) {
  if (!core.cpuid_pending) return;
  core.cpuid_pending = false;
  constexpr Reg order[] = {rax, rbx, rcx, rdx};
  std::uint32_t qemu[4];
  for (unsigned i = 0; i < 4; i++) qemu[i] = static_cast<std::uint32_t>(core.get(order[i]));
  const machine::Cpuid a = machine_.cpuid(core.index, core.cpuid_leaf, core.cpuid_subleaf,
                                          {qemu[0], qemu[1], qemu[2], qemu[3]});
  const std::uint32_t ours[] = {a.eax, a.ebx, a.ecx, a.edx};
  for (unsigned i = 0; i < 4; i++)
    if (ours[i] != qemu[i]) core.set(order[i], ours[i]);
}

/// Counters are exact only when nobody who could still take time before us lags behind.
void Emulator::settle(Core &core, const Site &s) {
  if (host_.live() && !gate_.catch_up(core, before(core, s))) again(core, s);
}

std::uint64_t Emulator::tsc(Core &core, const Site &s) {
  const std::uint64_t value =
      host_.live() ? machine_.tsc(core.index, behind(core, s).all()) : host_.boot_tsc();
  // Never twice the same: software divides by differences.
  core.tsc_last = std::max(value, core.tsc_last + 1);
  return core.tsc_last;
}

void Emulator::rdtsc(Core &core, const Site &s, bool with_aux) {
  answer(core, tsc(core, s));
  if (with_aux) core.set(rcx, core.tsc_aux);
  skip(core, s);
}

void Emulator::rdmsr(Core &core, const Site &s) {
  if (s.ring == Ring::user) return;  // QEMU raises the fault
  const auto msr = static_cast<std::uint32_t>(core.get(rcx));
  std::uint64_t value = 0;
  if (msr == kMsrTsc) {
    value = tsc(core, s);
  } else {
    if (counts(msr)) settle(core, s);
    if (machine_.rdmsr(core.index, behind(core, s), msr, &value) != machine::Msr::handled) return;
  }
  answer(core, value);
  skip(core, s);
}

void Emulator::wrmsr(Core &core, const Site &s) {
  if (s.ring == Ring::user) return;
  const auto msr = static_cast<std::uint32_t>(core.get(rcx));
  const std::uint64_t value = static_cast<std::uint32_t>(core.get(rax)) | core.get(rdx) << 32;
  if (msr == kMsrTscAux) core.tsc_aux = static_cast<std::uint32_t>(value);
  if (counts(msr)) settle(core, s);
  if (machine_.wrmsr(core.index, behind(core, s), msr, value) == machine::Msr::handled)
    skip(core, s);
}

void Emulator::rdpmc(Core &core, const Site &s) {
  if (s.ring == Ring::user && (core.get(cr4) & kPceOfCr4) == 0) return;
  settle(core, s);
  std::uint64_t value = 0;
  const auto selector = static_cast<std::uint32_t>(core.get(rcx));
  if (!machine_.rdpmc(core.index, behind(core, s), selector, &value)) return;
  answer(core, value);
  skip(core, s);
}

void Emulator::hlt(Core &core, const Site &s) {
  if (!host_.live() || s.ring == Ring::user) return;
  switch (gate_.halt(core, behind(core, s))) {
    case Gate::Halt::sleep:
      return;
    case Gate::Halt::go_on:
      return skip(core, s);
    case Gate::Halt::again:
      // QEMU still holds back interrupts then if an STI came just before.
      return again(core, s);
  }
}

void Emulator::clflush(Core &core, const Site &s) {
  if (!host_.live() || s.operand_base >= 16) return;
  const std::uint64_t virtual_address = core.get(static_cast<Reg>(s.operand_base)) +
                                        static_cast<std::int64_t>(s.operand_displacement);
  std::uint64_t physical = 0;
  if (!qemu_plugin_translate_vaddr(virtual_address, &physical)) return;
  core.last_load = core.last_store = Core::kNoPage;
  machine_.flush(core.index, behind(core, s).all(), physical);
}

}  // namespace drfq::plugin
