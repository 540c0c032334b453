// SPDX-License-Identifier: GPL-2.0-only
// The local APIC's timer in simulated time. QEMU's own timer runs in host time. The plugin stops it
// as soon as the guest starts it, and delivers the interrupt itself.
#ifndef DRFQ_PLUGIN_APIC_TIMER_HH
#define DRFQ_PLUGIN_APIC_TIMER_HH

#include <cstdint>

#include "core/units.hh"

namespace drfq::plugin {

class ApicTimer {
 public:
  /// Period of the clock that the timer counts. CPUID leaf 15H reports it to the guest (1 GHz).
  static constexpr Ps kTick = kPsPerNs;

  void write_lvt(std::uint32_t value) { lvt_ = value; }
  void write_divide(std::uint32_t value) {
    const unsigned v = (value & 3) | (value >> 1 & 4);
    shift_ = (v + 1) & 7;
  }
  /// The guest wrote the initial count. 0 stops it.
  void start(std::uint32_t count, Ps now) {
    period_ = count == 0 ? 0 : (Ps{count} << shift_) * kTick;
    due_ = count == 0 ? kNever : now + period_;
  }

  /// It ran before, from this initial count, and has so many ticks left. A periodic one with none
  /// left is due.
  void take_over(std::uint32_t count, std::uint32_t left, Ps now) {
    start(count, now);
    if (count == 0) return;
    due_ = left != 0 || periodic() ? now + (Ps{left} << shift_) * kTick : kNever;
  }

  /// When it fires next; kNever: it is stopped.
  Ps due() const { return due_; }
  std::uint8_t vector() const { return lvt_ & 0xff; }

  /// Call it when the timer is due. Returns whether an interrupt must be delivered.
  bool fire() {
    due_ = periodic() ? due_ + period_ : kNever;
    return (lvt_ & 1u << 16) == 0 && vector() >= 16;
  }

 private:
  bool periodic() const { return (lvt_ >> 17 & 3) == 1; }

  std::uint32_t lvt_ = 1u << 16;  // masked
  unsigned shift_ = 1;
  Ps period_ = 0, due_ = kNever;
};

}  // namespace drfq::plugin

#endif
