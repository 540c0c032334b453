// SPDX-License-Identifier: GPL-2.0-only
#include "memory.hh"

namespace drfq::plugin {

namespace {

std::uint64_t value_of(qemu_plugin_meminfo_t info) {
  const qemu_plugin_mem_value v = qemu_plugin_mem_get_value(info);
  switch (v.type) {
    case 0:
      return v.data.u8;
    case 1:
      return v.data.u16;
    case 2:
      return v.data.u32;
    case 3:
      return v.data.u64;
    default:
      return v.data.u128.low;
  }
}

}  // namespace

void DataPath::slow(Core &core, qemu_plugin_meminfo_t info, std::uint64_t address, machine::Use use,
                    std::uint64_t insns, Ring ring) {
  const qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, address);
  if (h == nullptr) return;
  const std::uint64_t physical = qemu_plugin_hwaddr_phys_addr(h);
  const bool io = qemu_plugin_hwaddr_is_io(h);
  if (io || machine_.watches(physical)) {
    // Every access to such a page must come here.
    core.last_load = core.last_store = Core::kNoPage;
    if (!io) return watched(core, info, physical, use, insns);
    if (use == machine::Use::store && physical - apic::kBase < apic::kBytes)
      gate_.apic_write(core, physical - apic::kBase, static_cast<std::uint32_t>(value_of(info)),
                       machine_.now(core.index, insns));
    return;
  }
  core.pages[(address >> 12) % Core::kPages] = {address >> 12, physical & ~std::uint64_t{0xfff}};
  // What runs over the page's end is on another physical page: not worth a second look-up.
  const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
  const unsigned room = 0x1000 - (address & 0xfff);
  if (machine_.access(core.index, insns, physical, bytes < room ? bytes : room, use, ring))
    core.hot->spent = kTurn;
}

void DataPath::watched(Core &core, qemu_plugin_meminfo_t info, std::uint64_t physical,
                       machine::Use use, std::uint64_t insns) {
  const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
  const std::uint64_t value = value_of(info);
  if (use == machine::Use::load) return machine_.loaded(core.index, insns, physical, bytes, value);
  machine_.stored(core.index, insns, physical, bytes, value);
  // It may have been the shadow page's address. Other cores notice at their next turn.
  core.forget_pages();
  generation_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace drfq::plugin
