// SPDX-License-Identifier: GPL-2.0-only
// For each bank, the first waiting burst that hits its open row and the first that does
// not. They are kept up to date while bursts come and go and rows open and close. The
// pick (core/pick.hh) and the page policy read them.
#ifndef DRFQ_ROW_HEADS_HH
#define DRFQ_ROW_HEADS_HH

#include <vector>

#include "core/pick.hh"

namespace drfq {

/// The heads of one queue. After a bank's row has opened, the bank's heads are searched for when
/// they are asked for.
class RowHeads {
 public:
  using Slot = Queue::Slot;

  explicit RowHeads(unsigned banks) : banks_(banks), hits_(banks), misses_(banks), stale_(banks) {}

  /// Calls f with each bank's first hit, in any order.
  template <class F>
  void each_hit(const Queue &q, F f) {
    look_at_stale(q);
    hits_.each([&](unsigned bank) { f(banks_[bank].heads.hit); });
  }

  /// The same of the first misses.
  template <class F>
  void each_miss(const Queue &q, F f) {
    look_at_stale(q);
    misses_.each([&](unsigned bank) { f(banks_[bank].heads.miss); });
  }

  /// Whether no other bank has a hit.
  bool only_hits_of(const Queue &q, unsigned bank) {
    bool only = true;
    each_hit(q, [&](Slot s) { only = only && q.in(s).bank == bank; });
    return only;
  }

  /// An entry was queued. hit: its row is open.
  void added(const Queue &q, Slot slot, bool hit) {
    const unsigned bank = q.in(slot).bank;
    if (stale_.holds(bank)) return;
    BankHeads &h = banks_[bank].heads;
    Slot &first = hit ? h.hit : h.miss;
    if (first != Queue::kNone && !before(q.in(slot), q.in(first))) return;
    if (first == Queue::kNone) (hit ? hits_ : misses_).add(bank);
    first = slot;
  }

  /// An entry has just left its queue. Returns the heads of its bank.
  const BankHeads &removed(const Queue &q, Slot slot) {
    const unsigned bank = q.in(slot).bank;
    Bank &b = banks_[bank];
    if (stale_.holds(bank)) {
      look(q, bank);
      return b.heads;
    }
    Slot s = q.next_of(slot);
    if (b.heads.hit == slot) {
      while (s != Queue::kNone && q.in(s).row != b.row) s = q.next_of(s);
      b.heads.hit = s;
      if (s == Queue::kNone) hits_.remove(bank);
    } else if (b.heads.miss == slot) {
      // Without a hit all others are misses, too.
      if (b.heads.hit != Queue::kNone)
        while (s != Queue::kNone && q.in(s).row == b.row) s = q.next_of(s);
      b.heads.miss = s;
      if (s == Queue::kNone) misses_.remove(bank);
    }
    return b.heads;
  }

  void closed(const Queue &q, unsigned bank) {
    const Slot first = q.first_of(bank);
    if (first == Queue::kNone && !stale_.holds(bank)) return;
    stale_.remove(bank);
    set(bank, Queue::kNone, first);
  }

  void opened(const Queue &q, unsigned bank, std::uint32_t row) {
    banks_[bank].row = row;
    if (q.first_of(bank) != Queue::kNone) stale_.add(bank);
  }

 private:
  struct Bank {
    BankHeads heads;
    std::uint32_t row = 0;  // the open row; has no meaning while the bank is closed
  };

  void set(unsigned bank, Slot hit, Slot miss) {
    banks_[bank].heads.hit = hit;
    banks_[bank].heads.miss = miss;
    const auto keep = [bank](BankSet *set, Slot head) {
      if (head != Queue::kNone)
        set->add(bank);
      else
        set->remove(bank);
    };
    keep(&hits_, hit);
    keep(&misses_, miss);
  }

  void look_at_stale(const Queue &q) {
    if (!stale_.empty()) stale_.each([&](unsigned bank) { look(q, bank); });
  }

  [[gnu::noinline]] void look(const Queue &q, unsigned bank) {
    const std::uint32_t row = banks_[bank].row;
    stale_.remove(bank);
    Slot hit = Queue::kNone, miss = Queue::kNone;
    for (Slot s = q.first_of(bank); s != Queue::kNone; s = q.next_of(s)) {
      const bool hits = q.in(s).row == row;
      if (hits && hit == Queue::kNone) hit = s;
      if (!hits && miss == Queue::kNone) miss = s;
      if (hit != Queue::kNone && miss != Queue::kNone) break;
    }
    set(bank, hit, miss);
  }

  std::vector<Bank> banks_;
  BankSet hits_, misses_, stale_;
};

}  // namespace drfq

#endif
