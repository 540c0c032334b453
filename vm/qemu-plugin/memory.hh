// SPDX-License-Identifier: GPL-2.0-only
// Data accesses of the guest, on their way to the machine.
#ifndef DRFQ_PLUGIN_MEMORY_HH
#define DRFQ_PLUGIN_MEMORY_HH

#include <atomic>

#include "core.hh"
#include "gate.hh"

namespace drfq::plugin {

class DataPath {
 public:
  DataPath(machine::Machine &m, Gate &g) : machine_(m), gate_(g) {}

  /// One access; insns: retired by then, this instruction among them.
  void access(Core &core, qemu_plugin_meminfo_t info, std::uint64_t address, machine::Use use,
              std::uint64_t insns, Ring ring) {
    const std::uint64_t line = address / machine::kLineBytes;
    std::uint64_t &last = use == machine::Use::store ? core.last_store : core.last_load;
    // Nothing but a hit can follow; 16 bytes are the longest access.
    const bool inside = address % machine::kLineBytes <= machine::kLineBytes - 16;
    if (line == last && inside) return;
    last = line;
    const std::uint64_t page = address >> 12;
    const Core::Page &known = core.pages[page % Core::kPages];
    if (known.virtual_page != page || !inside) return slow(core, info, address, use, insns, ring);
    if (machine_.access(core.index, insns, known.physical | (address & 0xfff), 1, use, ring))
      core.hot->spent = kTurn;
  }

  /// The pages that the machine watches have changed.
  std::uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  void slow(Core &, qemu_plugin_meminfo_t, std::uint64_t address, machine::Use, std::uint64_t insns,
            Ring);
  void watched(Core &, qemu_plugin_meminfo_t, std::uint64_t physical, machine::Use,
               std::uint64_t insns);

  machine::Machine &machine_;
  Gate &gate_;
  std::atomic<std::uint32_t> generation_{0};
};

}  // namespace drfq::plugin

#endif
