// SPDX-License-Identifier: GPL-2.0-only
// A fake of the QEMU functions that the plugin calls, for tests without QEMU. Registers, physical
// memory and translations are plain containers. qemu_plugin_set_pc() must not return, so the fake
// throws Jump.
#ifndef DRFQ_PLUGIN_FAKE_QEMU_HH
#define DRFQ_PLUGIN_FAKE_QEMU_HH

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "qemu-plugin/vcpu.hh"

namespace drfq::plugin {

struct Jump {
  std::uint64_t to;
};

struct FakeQemu {
  std::array<std::uint64_t, reg_count> registers{};
  std::map<std::uint64_t, std::uint32_t> memory;  ///< words that reads return, by address
  std::vector<std::pair<std::uint64_t, std::uint32_t>> writes;
  std::map<std::uint64_t, std::uint64_t> pages;  ///< physical page by virtual page
  std::uint64_t io = ~std::uint64_t{0};          ///< physical page of a device
  std::uint64_t value = 0;                       ///< that the present access loads or stores
};
extern FakeQemu fake;

/// The meminfo of an access of 1, 2, 4 or 8 bytes.
qemu_plugin_meminfo_t info_of(unsigned bytes);

/// A vCPU on the fake QEMU. counters must outlive it.
Vcpu fake_vcpu(unsigned index, InlineCounters *counters);

}  // namespace drfq::plugin

#endif
