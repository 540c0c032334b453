// SPDX-License-Identifier: GPL-2.0-only
// Which waiting burst is served next, once the direction is known.
//
// Both rules see the DRAM through a View that the host supplies:
//   bool ready(const Entry &)          the entry's rank takes commands (no refresh)
//   bool row_hit(const Entry &)        its row is open in its bank
//   Ps column_at(const Entry &, Dir)   earliest column command its bank allows
//   Ps activate_at(const Entry &)      earliest activate of its row, precharge included
//   Ps row_to_column()                 tRCD
//   void each_hit(const Queue &, Dir, F)   calls F with the first hit of each bank: its slot
//   void each_miss(const Queue &, Dir, F)  the same of the first miss
//   static constexpr bool kTellsFit    whether it has the next function, which `fill` needs
//   bool fits_before(const Entry &f, const Entry &e, Dir, Ps min_col_at)
//                                      f can be served now and e is not later for it
// PlainView is for a host that has none of the last four.
// The row hits of one bank differ only in their order, and so do its misses. A rule
// therefore looks at the first hit and the first miss of each bank.
#ifndef DRFQ_PICK_HH
#define DRFQ_PICK_HH

#include <algorithm>

#include "queue.hh"

namespace drfq {

/// Of the entries that wait for a bank, in service order: the first whose row
/// is open and the first whose row is not. Slots; Queue::kNone: there is none.
struct BankHeads {
  Queue::Slot hit = Queue::kNone;
  Queue::Slot miss = Queue::kNone;
};

/// Finds a bank's heads by a search through its entries.
template <class View>
BankHeads search_heads(const Queue &q, unsigned bank, const View &view) {
  BankHeads h;
  for (Queue::Slot s = q.first_of(bank); s != Queue::kNone; s = q.next_of(s)) {
    Queue::Slot &first = view.row_hit(q.in(s)) ? h.hit : h.miss;
    if (first == Queue::kNone) first = s;
    if (h.hit != Queue::kNone && h.miss != Queue::kNone) break;
  }
  return h;
}

/// A View derives from PlainView<itself> when its host keeps no heads of its banks
/// and cannot tell what fits.
template <class View>
struct PlainView {
  static constexpr bool kTellsFit = false;
  template <class F>
  void each_hit(const Queue &q, Dir, F f) const {
    each(q, &BankHeads::hit, f);
  }
  template <class F>
  void each_miss(const Queue &q, Dir, F f) const {
    each(q, &BankHeads::miss, f);
  }

 private:
  template <class F>
  void each(const Queue &q, Queue::Slot BankHeads::*head, F f) const {
    q.banks().each([&](unsigned bank) {
      const Queue::Slot s = search_heads(q, bank, static_cast<const View &>(*this)).*head;
      if (s != Queue::kNone) f(s);
    });
  }
};

/// First-ready, lowest-virtual-time-first (thesis 4.4): the first row hit in
/// queue order, else the first entry that is ready. Place in the queue, or
/// q.entries() when nothing is ready.
template <class View>
unsigned pick_first_ready(const Queue &q, Dir dir, const View &view) {
  if (!q.empty() && view.row_hit(q.head()) && view.ready(q.head())) return 0;
  Queue::Slot hit = Queue::kNone;
  view.each_hit(q, dir, [&](Queue::Slot s) {
    if ((hit == Queue::kNone || before(q.in(s), q.in(hit))) && view.ready(q.in(s))) hit = s;
  });
  if (hit != Queue::kNone) return q.place_of(hit);
  unsigned first = 0;
  while (first < q.entries() && !view.ready(q.at(first))) first++;
  return first;
}

/// Which entries a pick may take.
enum class Among : std::uint8_t { lowest_vtime, all };

namespace detail {

/// The oldest row hits among the entries that count.
struct Hits {
  const Entry *seamless = nullptr;  ///< that leave no gap on the bus
  const Entry *late = nullptr;      ///< that leave one
};

inline void keep_older(const Entry **kept, const Entry &e) {
  if (*kept == nullptr || e.seq < (*kept)->seq) *kept = &e;
}

/// Finds the banks whose next activate costs least. consider() takes each bank once.
class EarliestBanks {
 public:
  EarliestBanks(Ps min_col_at, Ps now, Ps row_to_column)
      : min_col_at_(min_col_at),
        row_to_column_(row_to_column),
        hidden_before_(std::max(min_col_at > row_to_column ? min_col_at - row_to_column : 0, now)) {
  }

  /// e: the oldest miss of its bank; act: its activate; column: what the bank allows besides.
  void consider(const Entry &e, Ps act, Ps column) {
    const bool fits = std::max(column, act + row_to_column_) <= min_col_at_;
    if (!fits && (seamless_ || act > act_)) return;
    if (!seamless_ && (fits || act < act_)) oldest_ = newest_ = nullptr;
    seamless_ = seamless_ || fits;
    act_ = act;
    keep_older(&oldest_, e);
    // Among several banks, the one whose oldest miss is the newest decides whether the activate
    // is hidden, because gem5 looks at that bank last.
    if (newest_ != nullptr && e.seq < newest_->seq) return;
    newest_ = &e;
    hidden_ = act <= hidden_before_;
  }

  const Entry *oldest() const { return oldest_; }
  bool hidden() const { return hidden_; }

 private:
  Ps min_col_at_, row_to_column_, hidden_before_;
  Ps act_ = kNever;
  bool seamless_ = false, hidden_ = false;
  const Entry *oldest_ = nullptr, *newest_ = nullptr;
};

/// Whether a pick may take an entry.
inline bool counts(const Queue &q, const Entry &e, Among among) {
  return among == Among::all || e.vtime == q.head().vtime;
}

template <class View>
Hits oldest_hits(const Queue &q, Dir dir, const View &view, Ps min_col_at, Among among) {
  Hits h;
  view.each_hit(q, dir, [&](Queue::Slot s) {
    const Entry &e = q.in(s);
    if (!counts(q, e, among) || !view.ready(e)) return;
    keep_older(view.column_at(e, dir) <= min_col_at ? &h.seamless : &h.late, e);
  });
  return h;
}

template <class View>
EarliestBanks earliest_banks(const Queue &q, Dir dir, const View &view, Ps min_col_at, Ps now,
                             Among among) {
  EarliestBanks earliest(min_col_at, now, view.row_to_column());
  view.each_miss(q, dir, [&](Queue::Slot s) {
    const Entry &e = q.in(s);
    if (!counts(q, e, among) || !view.ready(e)) return;
    earliest.consider(e, view.activate_at(e), view.column_at(e, dir));
  });
  return earliest;
}

}  // namespace detail

/// FR-FCFS with the refinements of a modern controller: the oldest row hit
/// that continues the data bus without a gap; else a row miss whose bank can be
/// prepared behind the current bursts; else the oldest row hit; else the oldest
/// entry of the banks that are ready earliest. min_col_at: when the bus is next free.
/// Place in the queue, or q.entries().
template <class View>
unsigned pick_frfcfs(const Queue &q, Dir dir, const View &view, Ps min_col_at, Ps now,
                     Among among = Among::lowest_vtime) {
  if (q.empty()) return 0;
  const Entry &head = q.head();
  if (among == Among::lowest_vtime && view.row_hit(head) &&
      view.column_at(head, dir) <= min_col_at && view.ready(head))
    return 0;
  const detail::Hits hits = detail::oldest_hits(q, dir, view, min_col_at, among);
  const Entry *chosen = hits.seamless;
  if (chosen == nullptr) {
    const auto earliest = detail::earliest_banks(q, dir, view, min_col_at, now, among);
    const bool open_row = hits.late == nullptr || earliest.hidden();
    chosen = open_row && earliest.oldest() != nullptr ? earliest.oldest() : hits.late;
  }
  return chosen != nullptr ? q.place_of(q.slot_of(*chosen)) : q.entries();
}

/// Picks the burst that the data bus carries while the chosen entry's row opens: the first
/// in queue order that does not delay the chosen entry. The burst may open a row only in a
/// bank where no entry of this queue precedes it, and none of the other queue has a lower
/// virtual time. ahead: the queue of the other direction. Place in the queue; the chosen
/// one when nothing fits.
template <class View>
unsigned fill_gap(const Queue &q, const Queue &ahead, unsigned chosen, Dir dir, const View &view,
                  Ps min_col_at) {
  const Entry &e = q.at(chosen);
  const Entry *best = nullptr;
  const auto consider = [&](const Entry &f) {
    if (f.bank == e.bank || (best != nullptr && before(*best, f))) return;
    if (view.ready(f) && view.fits_before(f, e, dir, min_col_at)) best = &f;
  };
  view.each_hit(q, dir, [&](Queue::Slot s) { consider(q.in(s)); });
  view.each_miss(q, dir, [&](Queue::Slot s) {
    const Entry &f = q.in(s);
    if (s != q.first_of(f.bank)) return;
    const Queue::Slot rival = ahead.first_of(f.bank);
    if (rival == Queue::kNone || ahead.in(rival).vtime >= f.vtime) consider(f);
  });
  return best != nullptr ? q.place_of(q.slot_of(*best)) : chosen;
}

}  // namespace drfq

#endif
