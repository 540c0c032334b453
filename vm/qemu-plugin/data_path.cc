// SPDX-License-Identifier: GPL-2.0-only
#include "data_path.hh"

#include "nvme_device.hh"

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

void DataPath::slow(Vcpu &vcpu, qemu_plugin_meminfo_t info, std::uint64_t address,
                    hardware::AccessKind kind, std::uint64_t insns, Ring ring) {
  const qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, address);
  if (h == nullptr) return;
  const std::uint64_t physical = qemu_plugin_hwaddr_phys_addr(h);
  const bool io = qemu_plugin_hwaddr_is_io(h);
  const bool device = device_ != nullptr && device_->contains(physical);
  if (io || device || hardware_.watches(physical)) {
    // Every access to such a page must take this path.
    vcpu.forget_lines();
    if (device) {
      if (kind != hardware::AccessKind::load)
        device_->stored(vcpu, physical, 1u << qemu_plugin_mem_size_shift(info), value_of(info),
                        insns);
      return;
    }
    if (!io) return watched(vcpu, info, physical, kind, insns, ring);
    if (kind != hardware::AccessKind::load && physical - apic::kBase < apic::kBytes)
      scheduler_.apic_write(vcpu, physical - apic::kBase,
                            static_cast<std::uint32_t>(value_of(info)),
                            hardware_.now(vcpu.index, vcpu.with_pauses(insns)));
    return;
  }
  vcpu.pages[(address >> 12) % Vcpu::kPages] = {address >> 12, physical & ~std::uint64_t{0xfff}};
  // The part beyond the page's end lies on another physical page. It is ignored, because such
  // accesses are too rare to matter and a second translation is expensive.
  const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
  const unsigned room = 0x1000 - (address & 0xfff);
  to_cache(vcpu, physical, bytes < room ? bytes : room, kind, insns, ring);
}

void DataPath::watched(Vcpu &vcpu, qemu_plugin_meminfo_t info, std::uint64_t physical,
                       hardware::AccessKind kind, std::uint64_t insns, Ring ring) {
  const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
  const std::uint64_t value = value_of(info);
  if (!hardware_.in_bar(physical)) to_cache(vcpu, physical, 1, kind, insns, ring);
  if (kind == hardware::AccessKind::load)
    return hardware_.loaded(vcpu.index, insns, physical, bytes, value);
  if (!hardware_.stored(vcpu.index, insns, physical, bytes, value)) return;
  // The mailbox has moved. Other vCPUs forget their pages at their next turn.
  vcpu.forget_pages();
  generation_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace drfq::plugin
