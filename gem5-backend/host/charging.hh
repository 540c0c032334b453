// SPDX-License-Identifier: GPL-2.0-only
// The kernel side of the co-design: how a process is charged and which value its registers
// receive. The arithmetic is the scheduler's own, bpf/drfq.h. Its constants DRFQ_BUS_SLACK_NS and
// DRFQ_BUS_LEAD_NS hold whatever the loop's times are.
#ifndef DRFQ_CHARGING_HH
#define DRFQ_CHARGING_HH

#include <cmath>
#include <cstdint>

#include "../../bpf/drfq.h"
#include "config/scenario.hh"

namespace drfq {

using Flow = ::drfq_flow;

/// What a process used since the last update.
struct Use {
  std::uint64_t run_ns = 0;  ///< R; 0 while blocked (4.5)
  std::uint64_t bytes = 0;   ///< b
  bool device = false;       ///< the bytes are a device's
};

/// The parts of a flow's state (core/state.hh).
template <class AnyFlow, class F>
void flow_parts(AnyFlow &flow, F &f) {
  f(flow.cpu_vt, flow.mem_vt, flow.debt_vt, flow.bus_vt, flow.cpu_frac, flow.mem_frac,
    flow.bus_frac, flow.weight);
}

/// V and B, with the scheduler's constants for one loop.
class Charger {
 public:
  /// busy: processes that run on a core.
  Charger(const LoopOptions &o, std::uint32_t busy) : shift_(o.shift), hold_(o.hold_ns > 0) {
    const auto ns = [](double v) { return static_cast<std::uint64_t>(std::llround(v)); };
    conf_.nr_cpus = o.cpus;
    conf_.charging = o.charging == Charging::memory ? DRFQ_CHARGE_CONTENDED : DRFQ_CHARGE_ALWAYS;
    conf_.mem_ns_per_byte_q32 = ns(4294967296.0 / o.bytes_per_ns);
    conf_.delta_ns = o.charging == Charging::memoryless ? 0
                     : o.charging == Charging::dovetail ? DRFQ_DELTA_NONE_NS
                                                        : ns(o.delta_ns);
    conf_.wake_credit_ns = ns(o.wake_ns);
    conf_.hold_ns = ns(o.hold_ns);
    conf_.cap_ns = ns(o.cap_ns);
    conf_.bus_credit_ns = 3 * ns(o.update_ns);
    load_ = {busy, 0};
  }

  Flow flow(double weight) const {
    Flow f;
    drfq_flow_new(&f, v_, bus_v_,
                  static_cast<std::uint32_t>(std::lround(weight * DRFQ_WEIGHT_ONE)));
    return f;
  }

  /// Charges what a process used in one interval. A running one is capped before (Algorithm 2).
  void charge(Flow *f, const Use &u) {
    if (u.device) {
      drfq_wake(f, &conf_, v_, u.bytes, load_);
      if (conf_.charging == DRFQ_CHARGE_CONTENDED) bus_v_ = drfq_bus_follow(f, &conf_, bus_v_);
    } else {
      drfq_cap(f, &conf_, v_);
      const std::uint64_t bus_ns = drfq_charge(f, &conf_, u.run_ns, u.bytes, load_);
      bus_v_ = drfq_bus_advance(f, &conf_, bus_v_, bus_ns);
    }
    drfq_bus_lift(f, &conf_, bus_v_);
  }

  /// 4.6. min_start: the smallest S of the running processes.
  void advance(std::uint64_t min_start) { v_ = drfq_advance(v_, min_start); }

  /// 4.10: whether a device's next block waits.
  bool held(const Flow &f) const { return hold_ && drfq_held(&f, &conf_, v_); }

  /// 4.5.3: the value that a register receives.
  std::uint64_t register_value(const Flow &f) const {
    return drfq_register_vtime(&f, &conf_) >> shift_;
  }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.v_, self.bus_v_);
  }

 private:
  ::drfq_conf conf_ = {};
  ::drfq_load load_ = {};
  std::uint64_t v_ = DRFQ_V_ORIGIN_NS, bus_v_ = DRFQ_V_ORIGIN_NS;
  unsigned shift_;
  bool hold_;
};

}  // namespace drfq

#endif
