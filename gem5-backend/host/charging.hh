// SPDX-License-Identifier: GPL-2.0-only
// The kernel side of the co-design, as pure functions: how a process is charged and
// which values the registers receive. Numbers refer to the thesis. The variants come from
// Ghodsi et al. (thesis 2.4.2). Times are nanoseconds of dominant resource time.
#ifndef DRFQ_CHARGING_HH
#define DRFQ_CHARGING_HH

#include <algorithm>
#include <cstdint>

#include "config/scenario.hh"

namespace drfq {

/// Where virtual time begins: above any credit, and never 0 in a register.
inline constexpr double kVirtualOriginNs = 1099511627776.0;

/// A process's virtual times and weight.
struct Flow {
  double cpu_ns = kVirtualOriginNs;
  double mem_ns = kVirtualOriginNs;
  double weight = 1;
  double start_ns() const { return std::max(cpu_ns, mem_ns); }
};

/// What a process used since the last update.
struct Use {
  double run_ns = 0;  ///< R; 0 while blocked (4.5)
  double bytes = 0;   ///< b
};

inline double cpu_time(const Use &u, const Flow &f, const LoopOptions &o) {
  return u.run_ns / o.cpus / f.weight;
}

inline double mem_time(const Use &u, const Flow &f, const LoopOptions &o) {
  return u.bytes / o.bytes_per_ns / f.weight;
}

/// 4.3, 4.4: one virtual time for both resources.
inline void charge_memoryless(Flow *f, const Use &u, const LoopOptions &o) {
  f->cpu_ns = f->mem_ns = f->start_ns() + std::max(cpu_time(u, *f, o), mem_time(u, *f, o));
}

/// 2.4.2: each resource has its own virtual time; the start is the larger.
inline void charge_dovetail(Flow *f, const Use &u, const LoopOptions &o) {
  f->cpu_ns += cpu_time(u, *f, o);
  f->mem_ns += mem_time(u, *f, o);
}

/// 2.4.2: dovetailing with a bounded gap between the two virtual times.
inline void charge_delta(Flow *f, const Use &u, const LoopOptions &o) {
  charge_dovetail(f, u, o);
  const double floor = f->start_ns() - o.delta_ns;
  f->cpu_ns = std::max(f->cpu_ns, floor);
  f->mem_ns = std::max(f->mem_ns, floor);
}

inline void charge(Flow *f, const Use &u, const LoopOptions &o) {
  switch (o.charging) {
    case Charging::memoryless:
      return charge_memoryless(f, u, o);
    case Charging::dovetail:
      return charge_dovetail(f, u, o);
    case Charging::delta:
      return charge_delta(f, u, o);
  }
}

/// 4.6: the smallest start of the running processes, never backwards.
inline double advance_system(double v, double min_start_ns) { return std::max(v, min_start_ns); }

/// Algorithm 2: a cap, so that a process does not starve long after uncontended use.
inline void cap(Flow *f, double v, const LoopOptions &o) {
  f->cpu_ns = std::min(f->cpu_ns, v + o.cap_ns);
  f->mem_ns = std::min(f->mem_ns, v + o.cap_ns);
}

/// 4.7: a process that was blocked starts at most C behind.
inline void wake(Flow *f, double v, const LoopOptions &o) {
  f->cpu_ns = std::max(f->cpu_ns, v - o.wake_ns);
  f->mem_ns = std::max(f->mem_ns, v - o.wake_ns);
}

/// 4.10: whether a device's next block waits.
inline bool held(const Flow &f, double v, const LoopOptions &o) {
  return o.hold_ns > 0 && f.start_ns() > v + o.hold_ns;
}

/// 4.5.3: the value that a register receives.
inline std::uint64_t register_value(const Flow &f, const LoopOptions &o) {
  return static_cast<std::uint64_t>(f.start_ns()) >> o.shift;
}

}  // namespace drfq

#endif
