// SPDX-License-Identifier: GPL-2.0-only
// A packet queue kept in (virtual time, arrival) order (thesis 4.4), as a whole
// and for each bank. Fixed storage: nothing is allocated once it is built.
#ifndef DRFQ_QUEUE_HH
#define DRFQ_QUEUE_HH

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "bank_set.hh"
#include "pinned.hh"
#include "units.hh"

namespace drfq {

/// Bursts of one packet that wait for the data bus and differ only in their seq: neighbours in
/// one row. Nothing can come between them, so one entry is enough.
struct Entry {
  VTime vtime = 0;        ///< latched at arrival
  std::uint64_t seq = 0;  ///< of its first burst: order of arrival at the controller, both queues
  Ps arrival = 0;
  std::uint32_t row = 0;
  std::uint16_t bank = 0;    ///< flat index over ranks and banks
  std::uint16_t handle = 0;  ///< the host's own reference
  std::uint16_t pid = 0;     ///< of the owner
  std::uint16_t bursts = 1;  ///< that wait
};

/// Whether a is served before b when nothing else tells them apart.
inline bool before(const Entry &a, const Entry &b) {
  return a.vtime != b.vtime ? a.vtime < b.vtime : a.seq < b.seq;
}

class Queue {
 public:
  /// The most bursts any queue may be configured to hold.
  static constexpr unsigned kMax = 256;

  /// Where an entry stays while it waits; its place changes, its slot does not.
  using Slot = std::uint16_t;
  static constexpr Slot kNone = 0xffff;

  /// capacity: bursts, 1..kMax (clamped). The thesis and gem5 here: 128.
  explicit Queue(unsigned capacity)
      : capacity_(capacity < 1      ? 1
                  : capacity > kMax ? kMax
                                    : capacity) {
    for (unsigned i = 0; i < kMax; i++) free_[i] = static_cast<std::uint8_t>(kMax - 1 - i);
    first_.fill(kNone);
    last_.fill(kNone);
  }

  unsigned capacity() const { return capacity_; }
  unsigned size() const { return size_; }  ///< bursts
  bool empty() const { return size_ == 0; }
  unsigned entries() const { return end_ - begin_; }

  /// Entry at a place in service order, 0..entries()-1; 0 is the head.
  const Entry &at(unsigned place) const { return slots_[slot_at(place)]; }
  const Entry &head() const { return at(0); }

  Slot slot_at(unsigned place) const { return order_[begin_ + place]; }
  const Entry &in(Slot slot) const { return slots_[slot]; }
  /// e: one of this queue's.
  Slot slot_of(const Entry &e) const { return static_cast<Slot>(&e - slots_.data()); }
  unsigned place_of(Slot slot) const {
    const std::uint8_t *const head = &order_[begin_];
    if (*head == slot) return 0;
    const void *found = std::memchr(head, slot, entries());
    assert(found != nullptr);
    return static_cast<unsigned>(static_cast<const std::uint8_t *>(found) - head);
  }

  /// A bank's entries in service order: the first, and the one after a slot; kNone at the end.
  Slot first_of(unsigned bank) const { return first_[bank]; }
  Slot next_of(Slot slot) const { return next_[slot]; }

  /// The banks that entries wait for.
  const BankSet &banks() const { return banks_; }

  /// Puts an entry in its place and returns its slot. The caller has made sure there is room.
  Slot insert(const Entry &e) {
    assert(size_ + e.bursts <= capacity_ && e.bursts != 0 && e.bank < kBanksMax);
    if (end_ == order_.size()) to_front();
    const unsigned place = place_for(e);
    const std::uint8_t slot = free_[kMax - 1 - entries()];
    Entry &kept = *pinned(&slots_[slot]);
    kept = e;
    if (place != end_) std::memmove(&order_[place + 1], &order_[place], end_ - place);
    order_[place] = slot;
    end_++;
    size_ += e.bursts;
    link(slot, kept);
    return slot;
  }

  /// Takes the first burst of the entry at a place; the last one takes the entry. Returns what is
  /// left of the entry, which stays in its slot until the next insert().
  const Entry &remove(unsigned place) {
    assert(place < entries());
    const std::uint8_t slot = order_[begin_ + place];
    Entry &e = *pinned(&slots_[slot]);
    size_--;
    e.seq++;
    if (--e.bursts != 0) return e;
    // Most are near the head.
    if (place != 0) std::memmove(&order_[begin_ + 1], &order_[begin_], place);
    begin_++;
    free_[kMax - 1 - entries()] = slot;
    unlink(slot, e.bank);
    return e;
  }

  /// Place of the entry that arrived first, whatever its virtual time.
  unsigned oldest() const {
    unsigned best = 0;
    for (unsigned i = 1; i < entries(); i++)
      if (at(i).seq < at(best).seq) best = i;
    return best;
  }

 private:
  /// Index into order_ of a new entry.
  unsigned place_for(const Entry &e) const {
    unsigned lo = begin_, hi = end_;
    // Arrivals carry the highest seq, so most belong at the tail.
    if (lo == hi || !before(e, slots_[order_[hi - 1]])) return hi;
    while (lo < hi) {
      const unsigned mid = (lo + hi) / 2;
      if (before(e, slots_[order_[mid]]))
        hi = mid;
      else
        lo = mid + 1;
    }
    return lo;
  }

  void to_front() {
    std::memmove(order_.data(), order_.data() + begin_, entries());
    end_ -= begin_;
    begin_ = 0;
  }

  void link(Slot slot, const Entry &e) {
    Slot behind = last_[e.bank], ahead = kNone;
    while (behind != kNone && before(e, slots_[behind])) {
      ahead = behind;
      behind = prev_[behind];
    }
    prev_[slot] = behind;
    next_[slot] = ahead;
    (behind != kNone ? next_[behind] : first_[e.bank]) = slot;
    (ahead != kNone ? prev_[ahead] : last_[e.bank]) = slot;
    banks_.add(e.bank);
  }

  void unlink(Slot slot, unsigned bank) {
    const Slot behind = prev_[slot], ahead = next_[slot];
    (behind != kNone ? next_[behind] : first_[bank]) = ahead;
    (ahead != kNone ? prev_[ahead] : last_[bank]) = behind;
    if (first_[bank] == kNone) banks_.remove(bank);
  }

  unsigned capacity_;
  unsigned size_ = 0;             // bursts
  unsigned begin_ = 0, end_ = 0;  // of order_, what is in use
  std::array<Entry, kMax> slots_;
  std::array<std::uint8_t, 2 * kMax> order_{};  // places to slots
  std::array<std::uint8_t, kMax> free_;         // used from the end, entries() are taken
  std::array<Slot, kMax> next_{}, prev_{};      // of the same bank
  std::array<Slot, kBanksMax> first_, last_;    // by bank
  BankSet banks_{kBanksMax};                    // with entries
};

}  // namespace drfq

#endif
