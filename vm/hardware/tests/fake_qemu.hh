// SPDX-License-Identifier: GPL-2.0-only
// A stand-in for the part of QEMU that the plugin's own code calls, so that it
// can be tested without QEMU: registers, physical memory and address translation
// are plain containers. qemu_plugin_set_pc(), which never returns, throws Jump.
#ifndef DRFQ_HARDWARE_QEMU_FAKE_HH
#define DRFQ_HARDWARE_QEMU_FAKE_HH

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
  std::map<std::uint64_t, std::uint32_t> memory;  ///< words that reads find, by address
  std::vector<std::pair<std::uint64_t, std::uint32_t>> writes;
  std::map<std::uint64_t, std::uint64_t> pages;  ///< physical page of each virtual one
  std::uint64_t io = ~std::uint64_t{0};          ///< physical page of a device
  std::uint64_t value = 0;                       ///< of the access that is looked at
};
extern FakeQemu fake;

/// The description of an access of so many bytes, 1 to 8.
qemu_plugin_meminfo_t info_of(unsigned bytes);

/// A core that uses the stand-in; hot outlives it.
Vcpu fake_vcpu(unsigned index, InlineCounters *counters);

}  // namespace drfq::plugin

#endif
