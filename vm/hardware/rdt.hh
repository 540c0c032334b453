// SPDX-License-Identifier: GPL-2.0-only
// Resource Director Technology: its MSRs, and what they mean for the caches and
// the memory. Intel SDM volume 3, chapter "Debug, branch profile, TSC and
// Intel RDT features"; names of registers are those of the manual.
#ifndef DRFQ_MACHINE_RDT_HH
#define DRFQ_MACHINE_RDT_HH

#include <cstdint>
#include <vector>

#include "cache.hh"
#include "description.hh"

namespace drfq::machine {

enum class Msr : std::uint8_t;

namespace msr {
inline constexpr std::uint32_t kQmEvtsel = 0xC8D;  ///< IA32_QM_EVTSEL
inline constexpr std::uint32_t kQmCtr = 0xC8E;     ///< IA32_QM_CTR
inline constexpr std::uint32_t kPqrAssoc = 0xC8F;  ///< IA32_PQR_ASSOC
inline constexpr std::uint32_t kL3Mask = 0xC90;    ///< IA32_L3_QOS_MASK_0
inline constexpr std::uint32_t kMbaDelay = 0xD50;  ///< IA32_L2_QOS_EXT_BW_THRTL_0
}  // namespace msr

/// What a core is working for.
struct Class {
  std::uint16_t rmid = 0;
  std::uint16_t clos = 0;
};

/// The share of a memory-bound core's request rate that a delay value leaves,
/// 0 < share <= 1. linear: 1 - delay. mt2: the shape of Figure 4 of the MT2 paper
/// as its text gives it: no effect down to level 60, 28 of 102 GB/s at level 10,
/// and a straight line between the two.
double share_at(Throttle, unsigned delay_percent);

class Rdt {
 public:
  Rdt(const RdtShape &, unsigned cores, unsigned ways);

  bool monitors() const { return shape_.rmids != 0; }
  bool allocates() const { return shape_.l3_closes != 0 || shape_.mba_closes != 0; }

  /// cache: for occupancy.
  Msr read(unsigned core, std::uint32_t msr, const SharedCache &cache, std::uint64_t *value) const;
  Msr write(unsigned core, std::uint32_t msr, std::uint64_t value);

  /// What the core's PQR_ASSOC says.
  Class assigned(unsigned core) const;

  /// Ways that a class may fill.
  std::uint32_t ways(std::uint16_t clos) const { return ways_[clos < ways_.size() ? clos : 0]; }
  /// What its requests to memory wait, as a multiple of the time between two of
  /// them: 1 / share - 1.
  double wait(std::uint16_t clos) const { return wait_[clos < wait_.size() ? clos : 0]; }

  /// A line came from memory or went there on this id's account.
  void moved(std::uint16_t rmid) { lines_[rmid]++; }
  /// Lines moved since the start.
  std::uint64_t lines(std::uint16_t rmid) const { return lines_[rmid]; }
  unsigned ids() const { return static_cast<unsigned>(lines_.size()); }

 private:
  Msr counter(std::uint64_t evtsel, const SharedCache &cache, std::uint64_t *value) const;
  bool set_mask(unsigned clos, std::uint64_t value);
  bool set_delay(unsigned clos, std::uint64_t value);

  RdtShape shape_;
  unsigned all_ways_;
  std::vector<std::uint64_t> evtsel_, pqr_;  // of each core
  std::vector<std::uint64_t> mask_, delay_;  // of each class, as written
  std::vector<std::uint32_t> ways_;
  std::vector<double> wait_;
  std::vector<std::uint64_t> lines_;  // of each monitoring id
};

}  // namespace drfq::machine

#endif
