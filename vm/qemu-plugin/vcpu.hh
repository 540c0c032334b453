// SPDX-License-Identifier: GPL-2.0-only
// What the plugin keeps for each vCPU. Only the vCPU's own thread uses it, except for the fields
// that the scheduler guards (vcpu_scheduler.hh).
#ifndef DRFQ_PLUGIN_VCPU_HH
#define DRFQ_PLUGIN_VCPU_HH

#include <array>
#include <cstdint>
#include <vector>

#include "decode.hh"
#include "hardware_model.hh"
#include "qemu_plugin_api.hh"

namespace drfq::plugin {

using hardware::RetiredInsns;
using hardware::Ring;

/// A translated block. A fault in its middle needs the offsets to correct the instruction count.
struct Block {
  Ring ring;
  std::vector<std::uint16_t> offsets;  ///< of its instructions, within their pages
};

/// Counters that translated code updates inline, in QEMU's per-vCPU memory.
struct InlineCounters {
  /// Instructions entered since the machine went live, by Ring: the retired ones and the rest of
  /// the present block.
  std::uint64_t insns[2];
  std::uint64_t turn_counter;  ///< counts instructions up to kTurnThreshold
  const Block *block;          ///< the present block; null: unknown
};

/// A vCPU asks the scheduler for its turn when its turn_counter reaches this value.
inline constexpr std::uint64_t kTurnThreshold = std::uint64_t{1} << 40;

/// A PAUSE takes the time of this many instructions. With one instruction a cycle, that is as long
/// as on Skylake (Intel Optimization Reference Manual, "PAUSE Latency in Skylake Client
/// Microarchitecture").
inline constexpr std::uint64_t kPauseInsns = 140;

/// An instruction that the plugin handles, and its place in the translated code.
struct InsnSite {
  SpecialInsn insn = SpecialInsn::none;
  std::uint16_t block_offset = 0;  ///< of the block's start, within its page
  std::uint16_t offset = 0;        ///< of the instruction, within its page
  std::uint8_t bytes = 0;
  bool on_second_page = false;  ///< the block crosses a page before this instruction
  Ring ring = Ring::kernel;
  bool counted = false;    ///< false: translated before the machine went live
  std::uint16_t left = 0;  ///< instructions of the block from this one on
  Operand operand;         ///< of CLFLUSH and of MOV to CR3
};

/// General registers in the order of their encoding, then the others that the plugin uses.
enum Reg : unsigned {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r15 = 15,
  rip,
  eflags,
  cr4,
  reg_count
};

struct Vcpu {
  unsigned index = 0;
  InlineCounters *counters = nullptr;
  std::array<qemu_plugin_register *, reg_count> registers{};
  GByteArray *buffer = nullptr;  ///< for register and memory access

  // A CPUID that QEMU executes and the plugin amends afterwards.
  bool cpuid_pending = false;
  std::uint32_t cpuid_leaf = 0, cpuid_subleaf = 0;

  std::uint64_t tsc_aux = 0, tsc_last = 0;
  std::array<std::uint32_t, 2> pauses{};  ///< PAUSE instructions not yet charged, by Ring

  /// A cached translation. The cache is emptied by every instruction that flushes a TLB.
  struct Page {
    std::uint64_t virtual_page, physical;
  };
  static constexpr std::size_t kPages = 256;
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
  std::array<Page, kPages> pages;
  std::array<std::uint64_t, 3> last_line;  ///< virtual, by hardware::AccessKind

  Vcpu() { forget_pages(); }
  void forget_pages() {
    pages.fill({kNoPage, 0});
    forget_lines();
  }
  void forget_lines() { last_line.fill(kNoPage); }

  /// Instructions retired so far. left: those of the present block, in this ring, that have not
  /// retired yet.
  RetiredInsns retired(unsigned left = 0, Ring ring = Ring::kernel) const {
    RetiredInsns r;
    r.kernel = counters->insns[static_cast<unsigned>(Ring::kernel)];
    r.user = counters->insns[static_cast<unsigned>(Ring::user)];
    (ring == Ring::user ? r.user : r.kernel) -= left;
    return r;
  }
  /// Retired instructions, plus as many as the pauses not yet charged take. The hardware model's
  /// clock at this count includes these pauses.
  std::uint64_t with_pauses(std::uint64_t insns) const {
    return insns + (std::uint64_t{pauses[0]} + pauses[1]) * kPauseInsns;
  }
  /// Makes the next block ask the scheduler for its turn.
  void request_turn() const { counters->turn_counter = kTurnThreshold; }

  std::uint64_t get(Reg) const;
  void set(Reg, std::uint64_t) const;
};

}  // namespace drfq::plugin

#endif
