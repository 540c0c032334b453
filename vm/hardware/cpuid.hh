// SPDX-License-Identifier: GPL-2.0-only
// CPUID leaves that describe the modelled hardware to the guest (Intel SDM, volume 2, "CPUID";
// volume 3 for RDT and performance monitoring).
#ifndef DRFQ_HARDWARE_CPUID_HH
#define DRFQ_HARDWARE_CPUID_HH

#include "machine_description.hh"

namespace drfq::hardware {

struct Cpuid {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// Leaf 0 reports at least this highest basic leaf.
inline constexpr std::uint32_t kMaxLeaf = 0x1F;

/// The answer that the guest gets. of_qemu: the answer of the emulated CPU, which this function
/// changes only where the description requires it.
Cpuid cpuid_of(const MachineDescription &, std::uint32_t leaf, std::uint32_t subleaf,
               const Cpuid &of_qemu);

}  // namespace drfq::hardware

#endif
