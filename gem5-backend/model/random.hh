// SPDX-License-Identifier: GPL-2.0-only
// A small random generator (splitmix64) whose sequence is part of the model:
// the same seed gives the same traffic everywhere.
#ifndef DRFQ_RANDOM_HH
#define DRFQ_RANDOM_HH

#include <cstdint>

namespace drfq {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  /// 0..n-1; the bias is below n / 2^32.
  std::uint64_t below(std::uint64_t n) {
    return n <= 1 ? 0 : (n < (1ull << 32) ? ((next() >> 32) * n) >> 32 : next() % n);
  }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.state_);
  }

 private:
  std::uint64_t state_;
};

}  // namespace drfq

#endif
