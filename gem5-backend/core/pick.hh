// SPDX-License-Identifier: GPL-2.0-only
// Which waiting burst is served next, once the direction is known.
//
// Both rules see the DRAM through a View that the host supplies:
//   bool ready(const Entry &)          the entry's rank takes commands (no refresh)
//   bool row_hit(const Entry &)        its row is open in its bank
//   Ps column_at(const Entry &, Dir)   earliest column command its bank allows
//   Ps activate_at(const Entry &)      earliest activate of its row, precharge included
//   Ps row_to_column()                 tRCD
//   Ps no_activate_before()            a time that no activate precedes; PlainView has one
//   void each_hit(const Queue &, Dir, F)   calls F with the first hit of each bank: its slot
//   void each_miss(const Queue &, Dir, F)  the same of the first miss
//   static constexpr bool kTellsFit    whether it has the next three, which `fill` needs
//   Ps served_at(const Entry &, Dir, Ps min_col_at)   its column command if it is next
//   Ps shortest_gap()                  least time between two column commands
//   bool fits_before(const Entry &f, const Entry &e, Dir, Ps min_col_at, Ps e_at)
//                                      f can be served now and e, served at e_at, is not later
// PlainView is for a host that has none of those from each_hit on.
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
  Ps no_activate_before() const { return 0; }
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

/// The oldest row hits among the entries that count. Slots; Queue::kNone: there is none.
struct Hits {
  Queue::Slot seamless = Queue::kNone;  ///< that leave no gap on the bus
  Queue::Slot late = Queue::kNone;      ///< that leave one
};

/// Finds the oldest miss of the banks whose next activate costs least.
class EarliestBanks {
 public:
  EarliestBanks(Ps min_col_at, Ps row_to_column)
      : min_col_at_(min_col_at), row_to_column_(row_to_column) {}

  /// Whether no bank's next activate costs less. least: no activate is earlier.
  bool is_least(Ps act, Ps column, Ps least) const {
    return is_seamless(act, column) || (act == least && act + row_to_column_ > min_col_at_);
  }

  /// slot, seq: the oldest miss of a bank; act: its activate; column: what the bank allows besides.
  void consider(Queue::Slot slot, std::uint64_t seq, Ps act, Ps column) {
    // All that leave no gap on the bus cost the same, and less than any other.
    const Ps cost = is_seamless(act, column) ? 0 : act + 1;
    const bool first = cost < cost_ || (cost == cost_ && seq < seq_);
    cost_ = first ? cost : cost_;
    seq_ = first ? seq : seq_;
    slot_ = first ? slot : slot_;
  }

  Queue::Slot oldest() const { return slot_; }
  /// Whether the row opens while the bus is in use.
  bool hidden(Ps now) const {
    const Ps before = min_col_at_ > row_to_column_ ? min_col_at_ - row_to_column_ : 0;
    return cost_ == 0 || cost_ - 1 <= std::max(before, now);
  }

 private:
  bool is_seamless(Ps act, Ps column) const {
    return std::max(column, act + row_to_column_) <= min_col_at_;
  }

  Ps min_col_at_, row_to_column_;
  Ps cost_ = kNever;
  std::uint64_t seq_ = 0;
  Queue::Slot slot_ = Queue::kNone;
};

/// The highest virtual time that a pick may take; none is below the head's.
inline VTime most_vtime(const Queue &q, Among among) {
  return among == Among::all ? ~VTime{0} : q.head().vtime;
}

template <class View>
Hits oldest_hits(const Queue &q, Dir dir, const View &view, Ps min_col_at, Among among) {
  Hits h;
  const VTime most = most_vtime(q, among);
  view.each_hit(q, dir, [&](Queue::Slot s) {
    const Entry &e = q.in(s);
    if (e.vtime > most || !view.ready(e)) return;
    Queue::Slot &kept = view.column_at(e, dir) <= min_col_at ? h.seamless : h.late;
    if (kept == Queue::kNone || e.seq < q.in(kept).seq) kept = s;
  });
  return h;
}

/// Looks at the first entries of the lowest virtual time, oldest first, for a miss that no other
/// can precede. `earliest` stays empty when there is none.
template <class View>
void look_at_oldest(const Queue &q, Dir dir, const View &view, EarliestBanks *earliest) {
  constexpr unsigned kLooks = 8;
  const Ps least = view.no_activate_before();
  const VTime most = q.head().vtime;
  for (unsigned place = 0; place < kLooks && place < q.entries(); place++) {
    const Entry &e = q.at(place);
    if (e.vtime != most) return;
    if (view.row_hit(e) || !view.ready(e)) continue;
    const Ps act = view.activate_at(e), column = view.column_at(e, dir);
    if (!earliest->is_least(act, column, least)) continue;
    earliest->consider(q.slot_at(place), e.seq, act, column);
    return;
  }
}

template <class View>
EarliestBanks earliest_banks(const Queue &q, Dir dir, const View &view, Ps min_col_at,
                             Among among) {
  EarliestBanks earliest(min_col_at, view.row_to_column());
  if (among == Among::lowest_vtime) look_at_oldest(q, dir, view, &earliest);
  if (earliest.oldest() != Queue::kNone) return earliest;
  const VTime most = most_vtime(q, among);
  view.each_miss(q, dir, [&](Queue::Slot s) {
    const Entry &e = q.in(s);
    if (e.vtime > most || !view.ready(e)) return;
    earliest.consider(s, e.seq, view.activate_at(e), view.column_at(e, dir));
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
  Queue::Slot chosen = hits.seamless;
  if (chosen == Queue::kNone) {
    const auto earliest = detail::earliest_banks(q, dir, view, min_col_at, among);
    const bool open_row = hits.late == Queue::kNone || earliest.hidden(now);
    chosen = open_row && earliest.oldest() != Queue::kNone ? earliest.oldest() : hits.late;
  }
  return chosen != Queue::kNone ? q.place_of(chosen) : q.entries();
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
  const Ps e_at = view.served_at(e, dir, min_col_at);
  if (e_at < min_col_at + view.shortest_gap()) return chosen;
  const Entry *best = nullptr;
  const auto consider = [&](const Entry &f) {
    if (f.bank == e.bank || (best != nullptr && before(*best, f))) return;
    if (view.ready(f) && view.fits_before(f, e, dir, min_col_at, e_at)) best = &f;
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
