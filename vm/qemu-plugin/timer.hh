// SPDX-License-Identifier: GPL-2.0-only
// The local APIC's timer in simulated time. QEMU's own runs in the host's, so
// the plugin stops it as soon as the guest starts it, and delivers its interrupt
// itself. Pure.
#ifndef DRFQ_PLUGIN_TIMER_HH
#define DRFQ_PLUGIN_TIMER_HH

#include <cstdint>

#include "core/units.hh"

namespace drfq::plugin {

class Timer {
 public:
  /// Of the bus clock that QEMU's timer counts, and that CPUID leaf 0x15 tells the guest.
  static constexpr Ps kTick = kPsPerNs;

  void write_lvt(std::uint32_t value) { lvt_ = value; }
  void write_divide(std::uint32_t value) {
    const unsigned v = (value & 3) | (value >> 1 & 4);
    shift_ = (v + 1) & 7;
  }
  /// A write of the initial count, or what is left of it; 0 stops the timer.
  void start(std::uint32_t count, Ps now) {
    period_ = count == 0 ? 0 : (Ps{count} << shift_) * kTick;
    due_ = count == 0 ? kNever : now + period_;
  }

  /// When it fires next; kNever: it is stopped.
  Ps due() const { return due_; }
  std::uint8_t vector() const { return lvt_ & 0xff; }

  /// Call when due: whether there is an interrupt to deliver.
  bool fire() {
    const bool periodic = (lvt_ >> 17 & 3) == 1;
    due_ = periodic ? due_ + period_ : kNever;
    return (lvt_ & 1u << 16) == 0 && vector() >= 16;
  }

 private:
  std::uint32_t lvt_ = 1u << 16;  // masked
  unsigned shift_ = 1;
  Ps period_ = 0, due_ = kNever;
};

}  // namespace drfq::plugin

#endif
