// SPDX-License-Identifier: GPL-2.0-only
// A histogram of durations with fixed storage: buckets of 1/16 of a power of two.
#ifndef DRFQ_HISTOGRAM_HH
#define DRFQ_HISTOGRAM_HH

#include <array>
#include <cstdint>
#include <numeric>

#include "core/units.hh"

namespace drfq {

class Histogram {
 public:
  void add(Ps value) {
    counts_[bucket(value)]++;
    if (value > max_) max_ = value;
  }

  std::uint64_t count() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  }
  Ps max() const { return max_; }

  /// Upper edge of the bucket that holds the given percentile (0..100), at most
  /// 6.25 % above the exact value; 0 when empty.
  Ps percentile(double p) const {
    const std::uint64_t all = count();
    if (all == 0) return 0;
    const double want = p / 100.0 * static_cast<double>(all);
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < counts_.size(); i++) {
      seen += counts_[i];
      if (counts_[i] != 0 && static_cast<double>(seen) >= want)
        return edge(i) < max_ ? edge(i) : max_;
    }
    return max_;
  }

  void add_all(const Histogram &other) {
    for (unsigned i = 0; i < counts_.size(); i++) counts_[i] += other.counts_[i];
    if (other.max_ > max_) max_ = other.max_;
  }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.counts_, self.max_);
  }

 private:
  static constexpr unsigned kSub = 16;

  static unsigned bucket(Ps v) {
    const unsigned shift = 59 - static_cast<unsigned>(__builtin_clzll(v | kSub));
    return shift * kSub + static_cast<unsigned>(v >> shift);
  }

  static Ps edge(unsigned i) {
    if (i < kSub) return i;
    const unsigned top = i / kSub + 3;
    return ((Ps{kSub} + i % kSub + 1) << (top - 4)) - 1;
  }

  std::array<std::uint64_t, 61 * kSub> counts_{};
  Ps max_ = 0;
};

}  // namespace drfq

#endif
