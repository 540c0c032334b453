// SPDX-License-Identifier: GPL-2.0-only
// For each bank, the first waiting burst that hits its open row and the first that does
// not. They are kept up to date while bursts come and go and rows open and close. The
// pick (core/pick.hh) and the page policy read them.
#ifndef DRFQ_ROW_HEADS_HH
#define DRFQ_ROW_HEADS_HH

#include <vector>

#include "core/pick.hh"

namespace drfq {

/// The heads of one queue. After a bank's row has opened, of() searches for the bank's heads.
class RowHeads {
 public:
  using Slot = Queue::Slot;

  explicit RowHeads(unsigned banks) : banks_(banks) {}

  const BankHeads &of(const Queue &q, unsigned bank) {
    Bank &b = banks_[bank];
    if (b.stale) look(q, bank);
    return b.heads;
  }

  /// An entry was queued. hit: its row is open.
  void added(const Queue &q, Slot slot, bool hit) {
    Bank &b = banks_[q.in(slot).bank];
    if (b.stale) return;
    Slot &first = hit ? b.heads.hit : b.heads.miss;
    if (first == Queue::kNone || before(q.in(slot), q.in(first))) first = slot;
  }

  /// An entry is about to leave its queue.
  void removing(const Queue &q, Slot slot) {
    Bank &b = banks_[q.in(slot).bank];
    if (b.stale) return;
    Slot s = q.next_of(slot);
    if (b.heads.hit == slot) {
      while (s != Queue::kNone && q.in(s).row != b.row) s = q.next_of(s);
      b.heads.hit = s;
    } else if (b.heads.miss == slot) {
      // Without a hit all others are misses, too.
      if (b.heads.hit != Queue::kNone)
        while (s != Queue::kNone && q.in(s).row == b.row) s = q.next_of(s);
      b.heads.miss = s;
    }
  }

  void closed(const Queue &q, unsigned bank) {
    banks_[bank].heads = {Queue::kNone, q.first_of(bank)};
    banks_[bank].stale = false;
  }

  void opened(unsigned bank, std::uint32_t row) {
    banks_[bank].row = row;
    banks_[bank].stale = true;
  }

 private:
  struct Bank {
    BankHeads heads;
    std::uint32_t row = 0;  // the open row; has no meaning while the bank is closed
    bool stale = false;
  };

  void look(const Queue &q, unsigned bank) {
    Bank &b = banks_[bank];
    b.stale = false;
    b.heads = {};
    for (Slot s = q.first_of(bank); s != Queue::kNone; s = q.next_of(s)) {
      Slot &first = q.in(s).row == b.row ? b.heads.hit : b.heads.miss;
      if (first == Queue::kNone) first = s;
      if (b.heads.hit != Queue::kNone && b.heads.miss != Queue::kNone) break;
    }
  }

  std::vector<Bank> banks_;
};

}  // namespace drfq

#endif
