// SPDX-License-Identifier: GPL-2.0-only
// The local APIC's memory-mapped registers (Intel SDM, volume 3, "Advanced Programmable Interrupt
// Controller") and the destinations of its interrupt command. The x2APIC mode uses MSRs instead and
// is not supported; CPUID hides it. Pure functions.
#ifndef DRFQ_PLUGIN_APIC_HH
#define DRFQ_PLUGIN_APIC_HH

#include <cstdint>

namespace drfq::plugin::apic {

inline constexpr std::uint64_t kBase = 0xfee00000, kBytes = 0x1000;
inline constexpr std::uint32_t kId = 0x20, kLogicalDestination = 0xd0, kSpuriousInterrupt = 0xf0,
                               kCommand = 0x300, kCommandHigh = 0x310, kLvtTimer = 0x320,
                               kInitialCount = 0x380, kCurrentCount = 0x390, kDivide = 0x3e0;
/// In the register of the spurious interrupt: software has enabled the APIC.
inline constexpr std::uint32_t kSoftwareEnable = 1u << 8;

/// The destinations that address one APIC. Logical ones follow the flat model, 8 bits.
struct Identity {
  std::uint8_t physical = 0, logical = 0;
  bool enabled = true;  ///< by software; Linux disables the APIC of a CPU that goes offline
};

/// Whether an interrupt command can end a halt of this APIC's CPU. high: the upper half of the
/// command, which holds the destination. An INIT cannot: after it the CPU waits for a start-up IPI.
/// A disabled APIC accepts NMIs and start-up IPIs, but no fixed interrupts (Intel SDM, volume 3,
/// "Local APIC State After It Has Been Software Disabled").
inline bool wakes(std::uint32_t command, std::uint32_t high, bool is_sender, Identity i) {
  constexpr std::uint32_t kAny = 0xff, kLowestPriority = 1, kInit = 5;
  const std::uint32_t mode = command >> 8 & 7;
  if (mode == kInit || (mode <= kLowestPriority && !i.enabled)) return false;
  switch (command >> 18 & 3) {
    case 1:
      return is_sender;
    case 2:
      return true;
    case 3:
      return !is_sender;
    default:
      break;
  }
  const std::uint32_t to = high >> 24;
  const bool logical = (command >> 11 & 1) != 0;
  return to == kAny || (logical ? (to & i.logical) != 0 : to == i.physical);
}

/// Whether an APIC accepts a message-signalled interrupt to this address (Intel SDM, volume 3,
/// "Message Address Register Format").
inline bool is_addressed(std::uint64_t message, Identity i) {
  constexpr std::uint64_t kLogical = 1u << 2;
  if (!i.enabled || (message & ~std::uint64_t{0xfffff}) != kBase) return false;
  const auto to = static_cast<std::uint8_t>(message >> 12);
  return (message & kLogical) != 0 ? (to & i.logical) != 0 : to == i.physical;
}

}  // namespace drfq::plugin::apic

#endif
