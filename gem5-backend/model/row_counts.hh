// SPDX-License-Identifier: GPL-2.0-only
// How many waiting bursts each bank has, and how many of them hit its open row:
// what the page policy asks, and what lets the pick stop early.
#ifndef DRFQ_ROW_COUNTS_HH
#define DRFQ_ROW_COUNTS_HH

#include <vector>

#include "../core/queue.hh"

namespace drfq {

/// Of one queue.
class RowCounts {
 public:
  explicit RowCounts(unsigned banks) : banks_(banks) {}

  unsigned hits() const { return hits_; }
  unsigned hits(unsigned bank) const { return banks_[bank].hits; }
  unsigned misses(unsigned bank) const { return banks_[bank].waiting - banks_[bank].hits; }
  unsigned miss_banks() const { return miss_banks_; }

  void added(unsigned bank, bool hit) { change(bank, 1, hit ? 1 : 0); }
  void removed(unsigned bank, bool hit) { change(bank, -1, hit ? -1 : 0); }
  void closed(unsigned bank) { change(bank, 0, -static_cast<int>(banks_[bank].hits)); }

  /// The bank, closed until now, has opened a row.
  void opened(const Queue &q, unsigned bank, std::uint32_t row) {
    int hits = 0;
    unsigned left = banks_[bank].waiting;
    for (unsigned i = 0; left != 0; i++) {
      const Entry &e = q.at(i);
      if (e.bank != bank) continue;
      left--;
      hits += e.row == row;
    }
    change(bank, 0, hits);
  }

 private:
  struct Bank {
    unsigned waiting = 0;
    unsigned hits = 0;
  };

  void change(unsigned bank, int waiting, int hits) {
    Bank &b = banks_[bank];
    miss_banks_ -= b.waiting != b.hits;
    b.waiting = static_cast<unsigned>(static_cast<int>(b.waiting) + waiting);
    b.hits = static_cast<unsigned>(static_cast<int>(b.hits) + hits);
    hits_ = static_cast<unsigned>(static_cast<int>(hits_) + hits);
    miss_banks_ += b.waiting != b.hits;
  }

  std::vector<Bank> banks_;
  unsigned hits_ = 0;
  unsigned miss_banks_ = 0;
};

}  // namespace drfq

#endif
