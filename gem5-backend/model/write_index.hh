// SPDX-License-Identifier: GPL-2.0-only
// The set of burst addresses that wait in the write queue.
#ifndef DRFQ_WRITE_INDEX_HH
#define DRFQ_WRITE_INDEX_HH

#include <array>
#include <cstdint>

#include "core/queue.hh"

namespace drfq {

/// Open addressing with linear probing; at most Queue::kMax members, all different.
class WriteIndex {
 public:
  WriteIndex() { table_.fill(kNone); }

  bool holds(std::uint64_t burst) const { return members_ != 0 && table_[find(burst)] == burst; }

  /// burst: not a member yet.
  void add(std::uint64_t burst) {
    table_[find(burst)] = burst;
    members_++;
  }

  void remove(std::uint64_t burst) {
    unsigned hole = find(burst);
    if (table_[hole] != burst) return;
    table_[hole] = kNone;
    members_--;
    // Close the gap, or members behind it could not be found any more.
    for (unsigned i = (hole + 1) % kSize; table_[i] != kNone; i = (i + 1) % kSize) {
      const unsigned home = hash(table_[i]);
      if ((i - home) % kSize < (i - hole) % kSize) continue;
      table_[hole] = table_[i];
      table_[i] = kNone;
      hole = i;
    }
  }

 private:
  static constexpr unsigned kSize = 4 * Queue::kMax;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // no burst has it: burst_bytes >= 8

  static unsigned hash(std::uint64_t v) {
    return static_cast<unsigned>((v * 0x9e3779b97f4a7c15ull) >> 54) % kSize;
  }

  unsigned find(std::uint64_t burst) const {
    unsigned i = hash(burst);
    while (table_[i] != kNone && table_[i] != burst) i = (i + 1) % kSize;
    return i;
  }

  std::array<std::uint64_t, kSize> table_;
  unsigned members_ = 0;
};

}  // namespace drfq

#endif
