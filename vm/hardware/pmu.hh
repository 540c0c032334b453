// SPDX-License-Identifier: GPL-2.0-only
// Architectural performance monitoring, version 2 (Intel SDM volume 3, chapter
// "Performance monitoring"), of one core. Counting is exact; there are no
// interrupts on overflow, so sampling does not work. Edge, inversion and counter
// mask are accepted, but such a counter stands still, as one of an unknown event.
#ifndef DRFQ_MACHINE_PMU_HH
#define DRFQ_MACHINE_PMU_HH

#include <cstdint>
#include <vector>

#include "counts.hh"
#include "description.hh"

namespace drfq::machine {

enum class Msr : std::uint8_t;

namespace msr {
inline constexpr std::uint32_t kPmc = 0xC1;           ///< IA32_PMC0
inline constexpr std::uint32_t kPerfevtsel = 0x186;   ///< IA32_PERFEVTSEL0
inline constexpr std::uint32_t kOffcoreRsp0 = 0x1A6;  ///< MSR_OFFCORE_RSP_0, _1
inline constexpr std::uint32_t kFixedCtr = 0x309;     ///< IA32_FIXED_CTR0
inline constexpr std::uint32_t kPerfCapabilities = 0x345;
inline constexpr std::uint32_t kFixedCtrCtrl = 0x38D;
inline constexpr std::uint32_t kGlobalStatus = 0x38E;
inline constexpr std::uint32_t kGlobalCtrl = 0x38F;
inline constexpr std::uint32_t kGlobalOvfCtrl = 0x390;
inline constexpr std::uint32_t kFullPmc = 0x4C1;  ///< IA32_A_PMC0
}  // namespace msr

/// What one core's counters count from: by ring, kernel first.
struct Sources {
  Counts ring[2];
};

class Pmu {
 public:
  explicit Pmu(const Description &);

  /// now: the core's counts at this moment; they must never go back.
  Msr read(std::uint32_t msr, const Sources &now, std::uint64_t *value);
  Msr write(std::uint32_t msr, const Sources &now, std::uint64_t value);
  /// RDPMC; false when there is no such counter.
  bool rdpmc(std::uint32_t selector, const Sources &now, std::uint64_t *value);

  /// Occurrences of an event (number and umask) in one ring.
  std::uint64_t event(std::uint16_t event_umask, std::uint64_t offcore_request,
                      const Counts &) const;

 private:
  struct Counter {
    std::uint64_t value = 0;  ///< at the last look
    std::uint64_t seen = 0;   ///< its source then
  };

  bool is_on(unsigned i) const;
  std::uint64_t source(unsigned i, const Sources &now) const;
  std::uint64_t fixed_source(unsigned i, const Counts &) const;
  /// Brings every counter up to now; before anything that changes what they count.
  void catch_up(const Sources &now);
  std::uint64_t *setting(std::uint32_t msr);
  std::uint64_t writable(std::uint32_t msr) const;

  unsigned general_, fixed_;
  bool present_;
  std::uint64_t mask_;  // of a counter's width
  double cycles_per_ps_, tsc_per_ps_;
  std::vector<Counter> counters_;  // general_, then fixed_
  std::vector<std::uint64_t> evtsel_;
  std::uint64_t offcore_[2] = {0, 0};
  std::uint64_t fixed_ctrl_ = 0, global_ctrl_ = 0, status_ = 0;
};

}  // namespace drfq::machine

#endif
