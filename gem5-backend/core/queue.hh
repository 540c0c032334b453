// SPDX-License-Identifier: GPL-2.0-only
// A packet queue kept in (virtual time, arrival) order (thesis 4.4), as a whole
// and for each bank. Fixed storage: nothing is allocated once it is built.
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
  std::uint16_t pid = 0;     ///< of the owner
};

/// Whether a is served before b when nothing else tells them apart.
inline bool before(const Entry &a, const Entry &b) {
  return a.vtime != b.vtime ? a.vtime < b.vtime : a.seq < b.seq;
}

/// The most banks (over all ranks) that a queue tells apart.
inline constexpr unsigned kBanksMax = 256;

class Queue {
 public:
  /// The most entries any queue may be configured to hold.
  static constexpr unsigned kMax = 256;

  /// Where an entry stays while it waits; its place changes, its slot does not.
  using Slot = std::uint16_t;
  static constexpr Slot kNone = 0xffff;

  /// capacity: entries, 1..kMax (clamped). The thesis and gem5 here: 128.
  explicit Queue(unsigned capacity)
      : capacity_(capacity < 1      ? 1
                  : capacity > kMax ? kMax
                                    : capacity) {
    for (unsigned i = 0; i < kMax; i++) free_[i] = static_cast<std::uint8_t>(kMax - 1 - i);
    first_.fill(kNone);
    last_.fill(kNone);
  }

  unsigned capacity() const { return capacity_; }
  unsigned size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Entry at a place in service order; 0 is the head.
  const Entry &at(unsigned place) const { return slots_[order_[place]]; }
  const Entry &head() const { return at(0); }

  Slot slot_at(unsigned place) const { return order_[place]; }
  const Entry &in(Slot slot) const { return slots_[slot]; }
  /// e: one of this queue's.
  Slot slot_of(const Entry &e) const { return static_cast<Slot>(&e - slots_.data()); }
  unsigned place_of(Slot slot) const {
    const void *found = std::memchr(order_.data(), slot, size_);
    assert(found != nullptr);
    return static_cast<unsigned>(static_cast<const std::uint8_t *>(found) - order_.data());
  }

  /// A bank's entries in service order: the first, and the one after a slot; kNone at the end.
  Slot first_of(unsigned bank) const { return first_[bank]; }
  Slot next_of(Slot slot) const { return next_[slot]; }

  /// Calls f with every bank that entries wait for.
  template <class F>
  void each_bank(F f) const {
    for (unsigned w = 0; w < words_; w++)
      for (std::uint64_t left = banks_[w]; left != 0; left &= left - 1)
        f(w * 64 + static_cast<unsigned>(__builtin_ctzll(left)));
  }

  /// Puts an entry in its place and returns its slot. The caller has made sure there is room.
  Slot insert(const Entry &e) {
    assert(size_ < capacity_ && e.bank < kBanksMax);
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
    link(lo);
    return slot;
  }

  /// Removes and returns the entry at a place.
  Entry remove(unsigned place) {
    assert(place < size_);
    const std::uint8_t slot = order_[place];
    std::memmove(&order_[place], &order_[place + 1], size_ - place - 1);
    size_--;
    free_[kMax - 1 - size_] = slot;
    unlink(slot);
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
  void link(unsigned place) {
    const Slot slot = order_[place];
    const Entry &e = slots_[slot];
    const Slot behind = same_bank_before(place);
    const Slot ahead = behind != kNone ? next_[behind] : first_[e.bank];
    prev_[slot] = behind;
    next_[slot] = ahead;
    (behind != kNone ? next_[behind] : first_[e.bank]) = slot;
    (ahead != kNone ? prev_[ahead] : last_[e.bank]) = slot;
    const unsigned word = e.bank / 64u;
    banks_[word] |= std::uint64_t{1} << e.bank % 64;
    if (word >= words_) words_ = word + 1;
  }

  /// The last entry of a new entry's bank before its place.
  Slot same_bank_before(unsigned place) const {
    const Entry &e = at(place);
    const Slot first = first_[e.bank], last = last_[e.bank];
    if (last == kNone || !before(e, slots_[last])) return last;
    if (before(e, slots_[first])) return kNone;
    unsigned i = place - 1;
    while (at(i).bank != e.bank) i--;
    return order_[i];
  }

  void unlink(Slot slot) {
    const unsigned bank = slots_[slot].bank;
    const Slot behind = prev_[slot], ahead = next_[slot];
    (behind != kNone ? next_[behind] : first_[bank]) = ahead;
    (ahead != kNone ? prev_[ahead] : last_[bank]) = behind;
    if (first_[bank] == kNone) banks_[bank / 64] &= ~(std::uint64_t{1} << bank % 64);
  }

  unsigned capacity_;
  unsigned size_ = 0;
  std::array<Entry, kMax> slots_;
  std::array<std::uint8_t, kMax + 1> order_{};         // places to slots
  std::array<std::uint8_t, kMax> free_;                // used from the end, size_ are taken
  std::array<Slot, kMax> next_{}, prev_{};             // of the same bank
  std::array<Slot, kBanksMax> first_, last_;           // by bank
  std::array<std::uint64_t, kBanksMax / 64> banks_{};  // with entries, a bit each
  unsigned words_ = 0;                                 // of banks_, ever used
};

}  // namespace drfq

#endif
