// SPDX-License-Identifier: GPL-2.0-only
#include "instruction_emulator.hh"

#include <algorithm>

#include "guest/plugin_call_leaves.h"

namespace drfq::plugin {

namespace {

constexpr std::uint32_t kMsrTsc = 0x10, kMsrTscAux = 0xc0000103;
constexpr std::uint64_t kTsdOfCr4 = 1u << 2, kPceOfCr4 = 1u << 8;

/// Virtual address of the instruction. QEMU translates code independently of its address, so the
/// page comes from RIP, which may still point to the start of the block.
std::uint64_t address(const Vcpu &vcpu, const InsnSite &s) {
  const std::uint64_t ip = vcpu.get(rip);
  std::uint64_t at = (ip & ~std::uint64_t{0xfff}) | s.offset;
  if (s.on_second_page && (ip & 0xfff) >= s.block_offset) at += 0x1000;
  return at;
}

RetiredInsns before(const Vcpu &vcpu, const InsnSite &s) {
  return vcpu.retired(s.counted ? s.left : 0, s.ring);
}
RetiredInsns after(const Vcpu &vcpu, const InsnSite &s) {
  return vcpu.retired(s.counted ? s.left - 1 : 0, s.ring);
}

void return_in_edx_eax(Vcpu &vcpu, std::uint64_t value) {
  vcpu.set(rax, static_cast<std::uint32_t>(value));
  vcpu.set(rdx, value >> 32);
}

void leave_block(Vcpu &vcpu, const InsnSite &s, unsigned left) {
  if (s.counted) vcpu.counters->insns[static_cast<unsigned>(s.ring)] -= left;
  vcpu.counters->block = nullptr;
}

}  // namespace

void InstructionEmulator::skip(Vcpu &vcpu, const InsnSite &s) {
  leave_block(vcpu, s, s.left - 1);
  qemu_plugin_set_pc(address(vcpu, s) + s.bytes);
}

void InstructionEmulator::retry(Vcpu &vcpu, const InsnSite &s) {
  leave_block(vcpu, s, s.left);
  qemu_plugin_set_pc(address(vcpu, s));
}

void InstructionEmulator::run(Vcpu &vcpu, const InsnSite &s) {
  switch (s.insn) {
    case SpecialInsn::cpuid:
      return cpuid(vcpu, s);
    case SpecialInsn::rdmsr:
      return rdmsr(vcpu, s);
    case SpecialInsn::wrmsr:
      return wrmsr(vcpu, s);
    case SpecialInsn::rdpmc:
      return rdpmc(vcpu, s);
    case SpecialInsn::rdtsc:
      return rdtsc(vcpu, s, false);
    case SpecialInsn::rdtscp:
      return rdtsc(vcpu, s, true);
    case SpecialInsn::hlt:
      return hlt(vcpu, s);
    case SpecialInsn::clflush:
      return clflush(vcpu, s);
    case SpecialInsn::address_space:
      return set_space(vcpu, s);
    case SpecialInsn::translation:
      return vcpu.forget_pages();
    case SpecialInsn::pause:
      vcpu.pauses[static_cast<unsigned>(s.ring)]++;
      // A vCPU that spins asks for its turn earlier, so that the others advance.
      vcpu.counters->turn_counter += kPauseInsns;
      return;
    case SpecialInsn::none:
      return;
  }
}

void InstructionEmulator::cpuid(Vcpu &vcpu, const InsnSite &s) {
  const auto leaf = static_cast<std::uint32_t>(vcpu.get(rax));
  if (leaf == PLUGIN_CALL_GO_LIVE || leaf == PLUGIN_CALL_GROUND_TRUTH) {
    if (leaf == PLUGIN_CALL_GO_LIVE && !host_.live()) host_.go_live(vcpu.get(rcx));
    if (leaf == PLUGIN_CALL_GROUND_TRUTH && host_.live()) {
      catch_up(vcpu, s);
      hardware_.drain(vcpu.index, after(vcpu, s));
      host_.write_ground_truth();
    }
    vcpu.set(rax, host_.live());
    vcpu.set(rbx, PLUGIN_CALL_ANSWER);
    vcpu.set(rcx, 0);
    vcpu.set(rdx, 0);
    skip(vcpu, s);
  }
  vcpu.cpuid_leaf = leaf;
  vcpu.cpuid_subleaf = static_cast<std::uint32_t>(vcpu.get(rcx));
  vcpu.cpuid_pending = true;
  // If the block ends here, the next block's take_turn() amends the answer.
  if (s.left == 1) vcpu.request_turn();
}

void InstructionEmulator::amend_cpuid(Vcpu &vcpu) {
  if (!vcpu.cpuid_pending) return;
  vcpu.cpuid_pending = false;
  constexpr Reg order[] = {rax, rbx, rcx, rdx};
  std::uint32_t qemu[4];
  for (unsigned i = 0; i < 4; i++) qemu[i] = static_cast<std::uint32_t>(vcpu.get(order[i]));
  const hardware::Cpuid a = hardware_.cpuid(vcpu.index, vcpu.cpuid_leaf, vcpu.cpuid_subleaf,
                                            {qemu[0], qemu[1], qemu[2], qemu[3]});
  const std::uint32_t ours[] = {a.eax, a.ebx, a.ecx, a.edx};
  for (unsigned i = 0; i < 4; i++)
    if (ours[i] != qemu[i]) vcpu.set(order[i], ours[i]);
}

void InstructionEmulator::catch_up(Vcpu &vcpu, const InsnSite &s) {
  if (host_.live() && !scheduler_.catch_up(vcpu, before(vcpu, s))) retry(vcpu, s);
}

std::uint64_t InstructionEmulator::tsc(Vcpu &vcpu, const InsnSite &s) {
  const std::uint64_t value =
      host_.live() ? hardware_.tsc(vcpu.index, vcpu.with_pauses(after(vcpu, s).total()))
                   : host_.boot_tsc();
  // Two reads never return the same value, because software divides by their difference.
  vcpu.tsc_last = std::max(value, vcpu.tsc_last + 1);
  return vcpu.tsc_last;
}

void InstructionEmulator::rdtsc(Vcpu &vcpu, const InsnSite &s, bool with_aux) {
  if (s.ring == Ring::user && (vcpu.get(cr4) & kTsdOfCr4) != 0) return;  // QEMU raises #GP
  return_in_edx_eax(vcpu, tsc(vcpu, s));
  if (with_aux) vcpu.set(rcx, vcpu.tsc_aux);
  skip(vcpu, s);
}

void InstructionEmulator::rdmsr(Vcpu &vcpu, const InsnSite &s) {
  if (s.ring == Ring::user) return;  // QEMU raises #GP
  const auto msr = static_cast<std::uint32_t>(vcpu.get(rcx));
  std::uint64_t value = 0;
  if (msr == kMsrTsc) {
    value = tsc(vcpu, s);
  } else {
    // Counters are exact only then.
    if (hardware::msr::counts(msr)) catch_up(vcpu, s);
    if (hardware_.rdmsr(vcpu.index, after(vcpu, s), msr, &value) != hardware::MsrResult::handled)
      return;
  }
  return_in_edx_eax(vcpu, value);
  skip(vcpu, s);
}

void InstructionEmulator::wrmsr(Vcpu &vcpu, const InsnSite &s) {
  if (s.ring == Ring::user) return;
  const auto msr = static_cast<std::uint32_t>(vcpu.get(rcx));
  const std::uint64_t value = static_cast<std::uint32_t>(vcpu.get(rax)) | vcpu.get(rdx) << 32;
  if (msr == kMsrTscAux) vcpu.tsc_aux = static_cast<std::uint32_t>(value);
  if (hardware::msr::counts(msr)) catch_up(vcpu, s);
  if (hardware_.wrmsr(vcpu.index, after(vcpu, s), msr, value) == hardware::MsrResult::handled)
    skip(vcpu, s);
}

void InstructionEmulator::rdpmc(Vcpu &vcpu, const InsnSite &s) {
  if (s.ring == Ring::user && (vcpu.get(cr4) & kPceOfCr4) == 0) return;
  catch_up(vcpu, s);
  std::uint64_t value = 0;
  const auto selector = static_cast<std::uint32_t>(vcpu.get(rcx));
  if (!hardware_.rdpmc(vcpu.index, after(vcpu, s), selector, &value)) return;
  return_in_edx_eax(vcpu, value);
  skip(vcpu, s);
}

void InstructionEmulator::hlt(Vcpu &vcpu, const InsnSite &s) {
  if (!host_.live() || s.ring == Ring::user) return;
  switch (scheduler_.halt(vcpu, after(vcpu, s))) {
    case VcpuScheduler::Halt::sleep:
      return;
    case VcpuScheduler::Halt::skip:
      return skip(vcpu, s);
    case VcpuScheduler::Halt::retry:
      // If an STI precedes the HLT, QEMU still inhibits interrupts at the retried HLT, as hardware
      // does.
      return retry(vcpu, s);
  }
}

void InstructionEmulator::set_space(Vcpu &vcpu, const InsnSite &s) {
  vcpu.forget_pages();
  if (!host_.live() || s.operand.base == Operand::kNone) return;
  hardware_.set_space(vcpu.index, after(vcpu, s).total(),
                      vcpu.get(static_cast<Reg>(s.operand.base)));
}

void InstructionEmulator::clflush(Vcpu &vcpu, const InsnSite &s) {
  if (!host_.live()) return;
  const Operand &o = s.operand;
  const auto part = [&vcpu](unsigned reg) {
    return reg == Operand::kNone ? 0 : vcpu.get(static_cast<Reg>(reg));
  };
  const std::uint64_t virtual_address = part(o.base) + (part(o.index) << o.shift) +
                                        (o.after_insn ? address(vcpu, s) + s.bytes : 0) +
                                        static_cast<std::uint64_t>(std::int64_t{o.displacement});
  std::uint64_t physical = 0;
  if (!qemu_plugin_translate_vaddr(virtual_address, &physical)) return;
  vcpu.forget_lines();
  hardware_.flush(vcpu.index, after(vcpu, s).total(), physical);
}

}  // namespace drfq::plugin
