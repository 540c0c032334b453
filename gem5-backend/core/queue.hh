// SPDX-License-Identifier: GPL-2.0-only
// A packet queue kept in (virtual time, arrival) order (thesis 4.4). Fixed
// storage: nothing is allocated once it is built.
#ifndef DRFQ_QUEUE_HH
#define DRFQ_QUEUE_HH

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "units.hh"

namespace drfq {

/// One burst that waits for the data bus.
struct Entry {
  VTime vtime = 0;        ///< latched at arrival
  std::uint64_t seq = 0;  ///< order of arrival at the controller, both queues
  Ps arrival = 0;
  std::uint32_t row = 0;
  std::uint16_t bank = 0;    ///< flat index over ranks and banks
  std::uint16_t handle = 0;  ///< the host's own reference
};

/// Whether a is served before b when nothing else tells them apart.
inline bool before(const Entry &a, const Entry &b) {
  return a.vtime != b.vtime ? a.vtime < b.vtime : a.seq < b.seq;
}

class Queue {
 public:
  /// The most entries any queue may be configured to hold.
  static constexpr unsigned kMax = 256;

  /// capacity: entries, 1..kMax (clamped). The thesis and gem5 here: 128.
  explicit Queue(unsigned capacity)
      : capacity_(capacity < 1      ? 1
                  : capacity > kMax ? kMax
                                    : capacity) {
    for (unsigned i = 0; i < kMax; i++) free_[i] = static_cast<std::uint8_t>(kMax - 1 - i);
  }

  unsigned capacity() const { return capacity_; }
  unsigned size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Entry at a place in service order; 0 is the head.
  const Entry &at(unsigned place) const { return slots_[order_[place]]; }
  const Entry &head() const { return at(0); }

  /// Puts an entry in its place. The caller has made sure there is room.
  void insert(const Entry &e) {
    assert(size_ < capacity_);
    unsigned lo = 0, hi = size_;
    // Arrivals carry the highest seq, so most belong at the tail.
    if (size_ == 0 || !before(e, at(size_ - 1))) lo = hi;
    while (lo < hi) {
      const unsigned mid = (lo + hi) / 2;
      if (before(e, at(mid)))
        hi = mid;
      else
        lo = mid + 1;
    }
    const std::uint8_t slot = free_[kMax - 1 - size_];
    slots_[slot] = e;
    std::memmove(&order_[lo + 1], &order_[lo], size_ - lo);
    order_[lo] = slot;
    size_++;
  }

  /// Removes and returns the entry at a place.
  Entry remove(unsigned place) {
    assert(place < size_);
    const std::uint8_t slot = order_[place];
    std::memmove(&order_[place], &order_[place + 1], size_ - place - 1);
    size_--;
    free_[kMax - 1 - size_] = slot;
    return slots_[slot];
  }

  /// Place of the entry that arrived first, whatever its virtual time.
  unsigned oldest() const {
    unsigned best = 0;
    for (unsigned i = 1; i < size_; i++)
      if (at(i).seq < at(best).seq) best = i;
    return best;
  }

 private:
  unsigned capacity_;
  unsigned size_ = 0;
  std::array<Entry, kMax> slots_;
  std::array<std::uint8_t, kMax + 1> order_{};  // places to slots
  std::array<std::uint8_t, kMax> free_;         // used from the end, size_ are taken
};

}  // namespace drfq

#endif
