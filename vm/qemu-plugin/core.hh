// SPDX-License-Identifier: GPL-2.0-only
// What the plugin keeps of each vCPU. A vCPU's thread is the only one that
// touches its own, but for what is under the gate's mutex (gate.hh).
#ifndef DRFQ_PLUGIN_CORE_HH
#define DRFQ_PLUGIN_CORE_HH

#include <array>
#include <cstdint>
#include <vector>

#include "machine.hh"
#include "qemu.hh"

namespace drfq::plugin {

using machine::Progress;
using machine::Ring;

/// A translated block, for exact counts when it is left in the middle.
struct Block {
  Ring ring;
  std::vector<std::uint16_t> offsets;  ///< of its instructions, within their pages
};

/// What translated code itself counts, in QEMU's per-vCPU memory.
struct Hot {
  std::uint64_t
      insns[2];  ///< retired since the machine went live, by Ring, and what is left of the block
  std::uint64_t spent;  ///< counts up to kTurn
  const Block *block;   ///< that runs
};

/// A vCPU asks for its turn when Hot::spent gets here.
inline constexpr std::uint64_t kTurn = std::uint64_t{1} << 40;

/// An instruction that is done here, and where it stands.
struct Site {
  std::uint16_t block_offset;  ///< of the block's start in its page
  std::uint16_t offset;        ///< of the instruction in its page
  std::uint8_t bytes;
  bool second_page;  ///< of the block
  Ring ring;
  bool last;           ///< of the block
  bool counted;        ///< by the block; code from before the machine went live is not
  std::uint16_t left;  ///< instructions of the block from this one on
  std::uint8_t operand_base = 16;
  std::int32_t operand_displacement = 0;
};

/// General registers in the order of their encoding, and then these.
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

struct Core {
  unsigned index = 0;
  Hot *hot = nullptr;
  std::array<qemu_plugin_register *, reg_count> registers{};
  GByteArray *buffer = nullptr;  ///< for register and memory access

  // CPUID that QEMU answers and the machine amends.
  bool cpuid_pending = false;
  std::uint32_t cpuid_leaf = 0, cpuid_subleaf = 0;

  std::uint64_t tsc_aux = 0, tsc_last = 0;
  std::uint32_t pauses = 0;  ///< since the last turn

  /// Which physical page a virtual one is. Emptied by whatever must empty a TLB.
  struct Page {
    std::uint64_t virtual_page, physical;
  };
  static constexpr std::size_t kPages = 256;
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
  std::array<Page, kPages> pages;
  std::uint64_t last_load = kNoPage, last_store = kNoPage;  ///< lines, virtual

  Core() { forget_pages(); }
  void forget_pages() {
    pages.fill({kNoPage, 0});
    last_load = last_store = kNoPage;
  }

  /// Retired so far; left: instructions of the present block, of this ring, that are not.
  Progress progress(unsigned left = 0, Ring ring = Ring::kernel) const {
    Progress p;
    p.kernel = hot->insns[static_cast<unsigned>(Ring::kernel)];
    p.user = hot->insns[static_cast<unsigned>(Ring::user)];
    (ring == Ring::user ? p.user : p.kernel) -= left;
    return p;
  }

  std::uint64_t get(Reg) const;
  void set(Reg, std::uint64_t) const;
};

}  // namespace drfq::plugin

#endif
