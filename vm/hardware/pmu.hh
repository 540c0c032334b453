// SPDX-License-Identifier: GPL-2.0-only
// One core's architectural performance monitoring, version 2 (Intel SDM, volume 3, "Performance
// monitoring"). Counts are exact. Overflow raises no interrupt, so sampling does not work. The
// edge, inversion and counter-mask bits are accepted, but such a counter does not advance, nor
// does a counter of an unknown event.
#ifndef DRFQ_HARDWARE_PMU_HH
#define DRFQ_HARDWARE_PMU_HH

#include <cstdint>
#include <vector>

#include "core_counts.hh"
#include "machine_description.hh"
#include "msr.hh"

namespace drfq::hardware {

class Pmu {
 public:
  explicit Pmu(const MachineDescription &);

  /// now: the core's counts at this moment. They must never decrease between calls.
  MsrResult read(std::uint32_t msr, const CountsByRing &now, std::uint64_t *value);
  MsrResult write(std::uint32_t msr, const CountsByRing &now, std::uint64_t value);
  /// RDPMC. False: no such counter.
  bool rdpmc(std::uint32_t selector, const CountsByRing &now, std::uint64_t *value);

  /// How often an event (event number and umask) occurred in one ring.
  std::uint64_t event(std::uint16_t event_umask, std::uint64_t offcore_request,
                      const CoreCounts &) const;

 private:
  struct Counter {
    std::uint64_t value = 0;        ///< at the last update
    std::uint64_t last_source = 0;  ///< the counted quantity at the last update
  };

  bool is_on(unsigned i) const;
  std::uint64_t source(unsigned i, const CountsByRing &now) const;
  std::uint64_t fixed_source(unsigned i, const CoreCounts &) const;
  /// Updates every counter. Call it before any change of what a counter counts.
  void update(const CountsByRing &now);
  std::uint64_t *setting(std::uint32_t msr);
  std::uint64_t writable(std::uint32_t msr) const;

  unsigned general_, fixed_;
  bool present_;
  std::uint64_t mask_;  // of a counter's width
  double cycles_per_ps_, tsc_per_ps_;
  std::uint64_t l3_miss_;          // bit of an offcore response
  std::vector<Counter> counters_;  // general_ programmable ones, then fixed_ ones
  std::vector<std::uint64_t> evtsel_;
  std::uint64_t offcore_[2] = {0, 0};
  std::uint64_t fixed_ctrl_ = 0, status_ = 0;
  std::uint64_t global_ctrl_;  // a reset enables the programmable counters
};

}  // namespace drfq::hardware

#endif
