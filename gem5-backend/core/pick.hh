// SPDX-License-Identifier: GPL-2.0-only
// Which waiting burst is served next, once the direction is known.
//
// Both rules see the DRAM through a View that the host supplies:
//   bool ready(const Entry &)          the entry's rank takes commands (no refresh)
//   bool row_hit(const Entry &)        its row is open in its bank
//   Ps column_at(const Entry &, Dir)   earliest column command its bank allows
//   Ps activate_at(const Entry &)      earliest activate of its row, precharge included
//   Ps row_to_column()                 tRCD
//   unsigned hits(Dir)                 waiting entries whose row is open, or more
//   unsigned miss_banks(Dir)           banks that other entries wait for, or more
// The last two only end a search early; a host that does not count says kUnknown.
#ifndef DRFQ_PICK_HH
#define DRFQ_PICK_HH

#include <algorithm>
#include <bitset>

#include "queue.hh"

namespace drfq {

/// The most banks (over all ranks) that pick_frfcfs tells apart.
inline constexpr unsigned kBanksMax = 256;

inline constexpr unsigned kUnknown = ~0u;

/// First-ready, lowest-virtual-time-first (thesis 4.4): the first row hit in
/// queue order, else the first entry that is ready. Place in the queue, or
/// q.size() when nothing is ready.
template <class View>
unsigned pick_first_ready(const Queue &q, Dir dir, const View &view) {
  unsigned first = q.size();
  const bool no_hit = view.hits(dir) == 0;
  for (unsigned i = 0; i < q.size(); i++) {
    const Entry &e = q.at(i);
    if (!view.ready(e)) continue;
    if (no_hit || view.row_hit(e)) return i;
    if (first == q.size()) first = i;
  }
  return first;
}

namespace detail {

struct BankPrep {
  std::bitset<kBanksMax> banks;  ///< those that can be prepared earliest
  bool hidden = false;           ///< their preparation hides behind the current bursts
};

/// The banks with waiting entries whose activate would cost least.
template <class View>
BankPrep earliest_banks(const Queue &q, unsigned first, Dir dir, const View &view, Ps min_col_at,
                        Ps now) {
  BankPrep best;
  std::bitset<kBanksMax> seen;
  Ps min_act = kNever;
  bool seamless = false;
  const Ps rcd = view.row_to_column();
  const Ps hidden_before = std::max(min_col_at > rcd ? min_col_at - rcd : 0, now);
  unsigned left = view.miss_banks(dir);
  for (unsigned i = 0; i < first && left != 0; i++) {
    const Entry &e = q.at(i);
    if (seen[e.bank] || !view.ready(e) || view.row_hit(e)) continue;
    seen[e.bank] = true;
    left--;
    const Ps act = view.activate_at(e);
    const bool fits = std::max(view.column_at(e, dir), act + rcd) <= min_col_at;
    if (!fits && (seamless || act > min_act)) continue;
    if (!seamless && (fits || act < min_act)) best.banks.reset();
    seamless = seamless || fits;
    best.hidden = act <= hidden_before;
    best.banks[e.bank] = true;
    min_act = act;
  }
  return best;
}

}  // namespace detail

/// How many entries at the front share the head's virtual time.
inline unsigned lowest(const Queue &q) {
  unsigned lo = 0, hi = q.size();
  while (lo < hi) {
    const unsigned mid = (lo + hi) / 2;
    if (q.at(mid).vtime == q.head().vtime)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/// FR-FCFS with the refinements of a modern controller: the oldest row hit
/// that continues the data bus without a gap; else a row miss whose bank can be
/// prepared behind the current bursts; else the oldest row hit; else the oldest
/// entry of the banks that are ready earliest. Looks at the first entries of the
/// queue only, which must share one virtual time. min_col_at: when the bus is
/// next free. Place in the queue, or q.size().
template <class View>
unsigned pick_frfcfs(const Queue &q, unsigned first, Dir dir, const View &view, Ps min_col_at,
                     Ps now) {
  unsigned chosen = q.size();
  bool have_hit = false, have_miss = false, hidden_miss = false, prepared = false;
  detail::BankPrep prep;
  unsigned hits_left = view.hits(dir);
  for (unsigned i = 0; i < first && !(have_miss && hits_left == 0); i++) {
    const Entry &e = q.at(i);
    if (!view.ready(e)) continue;
    if (view.row_hit(e)) {
      hits_left--;
      if (view.column_at(e, dir) <= min_col_at) return i;
      if (!hidden_miss && !have_hit) {
        chosen = i;
        have_hit = true;
      }
      continue;
    }
    if (have_miss) continue;
    if (!prepared) prep = detail::earliest_banks(q, first, dir, view, min_col_at, now);
    prepared = true;
    if (!prep.banks[e.bank]) continue;
    have_miss = true;
    hidden_miss = prep.hidden;
    if (hidden_miss || !have_hit) chosen = i;
  }
  return chosen;
}

}  // namespace drfq

#endif
