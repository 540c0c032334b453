// SPDX-License-Identifier: GPL-2.0-only
// CPUID leaves of the parts that a description adds to an emulated processor
// (Intel SDM volume 2, CPUID; volume 3 for RDT and performance monitoring).
#ifndef DRFQ_MACHINE_CPUID_HH
#define DRFQ_MACHINE_CPUID_HH

#include "description.hh"

namespace drfq::machine {

struct Cpuid;

/// The lowest highest basic leaf that software is told of.
inline constexpr std::uint32_t kMaxLeaf = 0x1F;

/// of_host: the emulator's own answer, which everything else keeps.
Cpuid cpuid_of(const Description &, std::uint32_t leaf, std::uint32_t subleaf,
               const Cpuid &of_host);

}  // namespace drfq::machine

#endif
