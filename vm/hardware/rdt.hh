// SPDX-License-Identifier: GPL-2.0-only
// Resource Director Technology: its MSRs and their effect on the shared cache and on memory
// requests. Register names are those of the Intel SDM, volume 3, chapter "Debug, Branch Profile,
// TSC, and Intel RDT Features".
#ifndef DRFQ_HARDWARE_RDT_HH
#define DRFQ_HARDWARE_RDT_HH

#include <cstdint>
#include <vector>

#include "cache.hh"
#include "machine_description.hh"
#include "msr.hh"

namespace drfq::hardware {

/// The ids in a core's IA32_PQR_ASSOC.
struct RdtClass {
  std::uint16_t rmid = 0;  ///< monitoring id
  std::uint16_t clos = 0;  ///< class of service
};

/// The share of a memory-bound core's request rate that a delay value leaves, 0 < share <= 1.
/// delay_percent: 0..99; higher values count as 99.
/// linear: 1 - delay. mt2: no effect down to level 60, 28/102 at level 10, and a straight line
/// between the two (the MT2 paper, Figure 4 and its text; level = 100 - delay). plateau: linear,
/// but levels of 65 to 94 all act as 90, as on some Xeons of the Skylake generation (issues 69 and
/// 115 of intel-cmt-cat).
double rate_share(ThrottleCurve, unsigned delay_percent);

class Rdt {
 public:
  Rdt(const RdtConfig &, unsigned cores, unsigned ways);

  bool monitors() const { return config_.rmids != 0; }
  bool allocates() const { return config_.l3_closes != 0 || config_.mba_closes != 0; }

  /// cache: holds the occupancy that IA32_QM_CTR reports.
  MsrResult read(unsigned core, std::uint32_t msr, const SharedCache &cache,
                 std::uint64_t *value) const;
  MsrResult write(unsigned core, std::uint32_t msr, std::uint64_t value);

  /// The ids that the core's IA32_PQR_ASSOC holds now.
  RdtClass class_of(unsigned core) const;

  /// Cache ways that a class may fill, one bit each.
  std::uint32_t ways(std::uint16_t clos) const { return ways_[clos < ways_.size() ? clos : 0]; }
  /// How long throttling delays a request of this class, as a multiple of the time since the
  /// core's previous request: 1 / share - 1.
  double throttle_factor(std::uint16_t clos) const {
    return factors_[clos < factors_.size() ? clos : 0];
  }

  /// Counts one line read from or written to memory for this monitoring id.
  void count_line(std::uint16_t rmid) { lines_[rmid]++; }
  /// At least 1: id 0 exists without monitoring, too.
  unsigned rmids() const { return static_cast<unsigned>(lines_.size()); }

 private:
  MsrResult counter(std::uint64_t evtsel, const SharedCache &cache, std::uint64_t *value) const;
  bool set_mask(unsigned clos, std::uint64_t value);
  bool set_delay(unsigned clos, std::uint64_t value);

  RdtConfig config_;
  unsigned all_ways_;
  std::vector<std::uint64_t> evtsel_, pqr_;  // by core
  std::vector<std::uint64_t> mask_, delay_;  // by class, as software reads them
  std::vector<std::uint32_t> ways_;          // by class
  std::vector<double> factors_;              // by class
  std::vector<std::uint64_t> lines_;         // by monitoring id
};

}  // namespace drfq::hardware

#endif
