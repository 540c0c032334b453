// SPDX-License-Identifier: GPL-2.0-only
// What the memory counted. Plain numbers; nothing here decides anything.
#ifndef DRFQ_STATS_HH
#define DRFQ_STATS_HH

#include <cstdint>
#include <vector>

#include "core/admission.hh"
#include "core/registers.hh"
#include "histogram.hh"

namespace drfq {

struct Stats {
  Ps since = 0;                       ///< when counting began
  std::uint64_t packets[2] = {0, 0};  ///< accepted, by direction
  std::uint64_t bursts[2] = {0, 0};   ///< moved over the data bus
  std::uint64_t row_hits[2] = {0, 0};
  std::uint64_t turnarounds = 0;
  std::uint64_t forwarded = 0;       ///< bursts read from the write queue
  std::uint64_t merged = 0;          ///< bursts written into one that waited
  std::uint64_t aged = 0;            ///< bursts served by the aging bound
  std::uint64_t refused[2][4] = {};  ///< by direction and drfq::Admission
  Histogram wait[2];                 ///< from arrival to the column command
  std::vector<std::uint64_t> bytes[2] = {std::vector<std::uint64_t>(kPids),
                                         std::vector<std::uint64_t>(kPids)};  ///< accepted, by pid

  void clear(Ps now) {
    *this = Stats();
    since = now;
  }

  /// Adds what another channel counted.
  void add(const Stats &other) {
    for (unsigned d = 0; d < 2; d++) {
      packets[d] += other.packets[d];
      bursts[d] += other.bursts[d];
      row_hits[d] += other.row_hits[d];
      for (unsigned i = 0; i < 4; i++) refused[d][i] += other.refused[d][i];
      wait[d].add_all(other.wait[d]);
      for (std::size_t i = 0; i < bytes[d].size(); i++) bytes[d][i] += other.bytes[d][i];
    }
    turnarounds += other.turnarounds;
    forwarded += other.forwarded;
    merged += other.merged;
    aged += other.aged;
  }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.since, self.packets, self.bursts, self.row_hits, self.turnarounds, self.forwarded,
      self.merged, self.aged, self.refused, self.wait, self.bytes);
  }
};

}  // namespace drfq

#endif
