// SPDX-License-Identifier: GPL-2.0-only
// A histogram of durations with fixed storage: buckets of 1/16 of a power of two.
#ifndef DRFQ_HISTOGRAM_HH
#define DRFQ_HISTOGRAM_HH

#include <array>
#include <cstdint>

#include "core/units.hh"

namespace drfq {

class Histogram {
 public:
  void add(Ps value) {
    counts_[bucket(value)]++;
    count_++;
    if (value > max_) max_ = value;
  }

  std::uint64_t count() const { return count_; }
  Ps max() const { return max_; }

  /// Upper edge of the bucket that holds the given percentile (0..100), at most
  /// 6.25 % above the exact value; 0 when empty.
  Ps percentile(double p) const {
    if (count_ == 0) return 0;
    const double want = p / 100.0 * static_cast<double>(count_);
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < counts_.size(); i++) {
      seen += counts_[i];
      if (counts_[i] != 0 && static_cast<double>(seen) >= want)
        return edge(i) < max_ ? edge(i) : max_;
    }
    return max_;
  }

  void clear() { *this = Histogram(); }

 private:
  static constexpr unsigned kSub = 16;

  static unsigned bucket(Ps v) {
    if (v < kSub) return static_cast<unsigned>(v);
    const unsigned top = 63 - static_cast<unsigned>(__builtin_clzll(v));
    return (top - 3) * kSub + static_cast<unsigned>((v >> (top - 4)) & (kSub - 1));
  }

  static Ps edge(unsigned i) {
    if (i < kSub) return i;
    const unsigned top = i / kSub + 3;
    return ((Ps{kSub} + i % kSub + 1) << (top - 4)) - 1;
  }

  std::array<std::uint64_t, 61 * kSub> counts_{};
  std::uint64_t count_ = 0;
  Ps max_ = 0;
};

}  // namespace drfq

#endif
