// SPDX-License-Identifier: GPL-2.0-only
// The DRAM behind the controller: which rows are open and when each command is
// allowed next. Computes command times ahead of the clock; it has no events.
#ifndef DRFQ_DRAM_HH
#define DRFQ_DRAM_HH

#include <algorithm>
#include <array>
#include <vector>

#include "core/queue.hh"
#include "timing.hh"

namespace drfq {

class Dram {
 public:
  /// An issued burst.
  struct Burst {
    Ps column = 0;    ///< time of its column command
    Ps data_end = 0;  ///< when its last beat has passed
    bool row_hit = false;
  };

  explicit Dram(const Timing &t) : t_(t), refresh_due_(t.ranks, t.refi), windows_(t.ranks) {
    // Where a rank is one bank group, the rank keeps the distances of both.
    grouped_ = t.groups > 1;
    for (unsigned i = 0; i < banks(); i++) {
      const unsigned rank = i / t.banks;
      banks_[i].rank = static_cast<std::uint16_t>(rank);
      banks_[i].group =
          static_cast<std::uint16_t>(grouped_ ? t.ranks + rank * t.groups + i % t.groups : rank);
    }
    next_refresh_ = t.refi;
    close_after_ = t.page == PagePolicy::closed ? 0
                   : t.accesses_per_row != 0    ? t.accesses_per_row
                                                : ~0u;
    latency_[0] = t.cl + t.burst, latency_[1] = t.cwl + t.burst;
    recovery_[0] = t.rtp, recovery_[1] = latency_[1] + t.wr;
    set_distances();
  }

  const Timing &timing() const { return t_; }
  unsigned banks() const { return t_.banks * t_.ranks; }
  std::uint64_t refreshes() const { return refreshes_; }

  /// From a burst's column command to that of the next one in its row and direction.
  Ps next_in_row(Dir d) const {
    return std::max(in_rank_[index(d)][index(d)], in_group_[index(d)][index(d)]);
  }

  /// Starts the refreshes that are due; returns whether any was. Call before looking at the banks.
  bool refresh(Ps now) {
    now_ = now;
    if (now < next_refresh_) return false;
    refresh_ranks(now);
    return true;
  }

  /// When the next rank that is being refreshed is available again; kNever: none is.
  Ps available_at() const {
    Ps at = kNever;
    for (unsigned i = 0; i < t_.ranks; i++)
      if (limits_[i].busy_until > now_) at = std::min(at, limits_[i].busy_until);
    return at;
  }

  // The View of core/pick.hh, without its heads. The present is the time of the last
  // refresh() call.
  bool ready(const Entry &e) const {
    return all_ready_at_ <= now_ || limits_[banks_[e.bank].rank].busy_until <= now_;
  }
  bool row_hit(const Entry &e) const { return banks_[e.bank].row == e.row; }
  Ps row_to_column() const { return t_.rcd; }
  Ps no_activate_before() const { return t_.ranks == 1 ? std::max(now_, limits_[0].act_at) : now_; }
  Ps column_at(const Entry &e, Dir d) const { return column_at(banks_[e.bank], d); }
  Ps activate_at(const Entry &e) const {
    const Bank &b = banks_[e.bank];
    const Ps at = std::max(act_at(b), now_);
    return b.row == kClosed ? at : std::max(at, std::max(b.precharge_at, now_) + t_.rp);
  }
  /// When an entry's column command can come if it is next.
  Ps served_at(const Entry &e, Dir d, Ps min_col_at) const {
    return std::max(served_at(e, d), min_col_at);
  }
  Ps shortest_gap() const { return t_.burst; }

  /// Whether f can be served now without delaying e. e waits for another bank, in the same
  /// direction, and is served at a time.
  bool fits_before(const Entry &f, const Entry &e, Dir d, Ps min_col_at, Ps e_at) const {
    const Bank &mine = banks_[f.bank], &its = banks_[e.bank];
    const bool same_group = mine.group == its.group, same_rank = mine.rank == its.rank;
    const unsigned i = index(d);
    const Ps gap = std::max((same_rank ? in_rank_ : far_)[i][i], same_group ? in_group_[i][i] : 0);
    if (served_at(f, d, min_col_at) + gap > e_at) return false;
    return row_hit(f) || row_hit(e) || !same_rank ||
           activate_after(f, same_group) <= activate_at(e);
  }

  bool is_open(unsigned bank) const { return banks_[bank].row != kClosed; }
  bool is_open(unsigned bank, std::uint32_t row) const { return banks_[bank].row == row; }

  /// Issues a burst: precharge and activate as needed, the column command when
  /// bank and data bus allow it. bus_free: the earliest column command for the
  /// bus. settle() must follow.
  Burst issue(const Entry &e, Dir d, Ps bus_free) {
    Bank &b = *pinned(&banks_[e.bank]);
    const bool hit = b.row == e.row;
    if (!hit) open_row(&b, e.row);
    const Ps column = std::max(std::max(bus_free, now_), column_at(b, d));
    constrain_columns(b, d, column);
    b.precharge_at = std::max(b.precharge_at, column + recovery_[index(d)]);
    b.accesses++;
    return {column, column + latency_[index(d)], hit};
  }

  /// Applies the page policy after a burst of the bank; returns whether it closes the row.
  /// unwanted: of the bursts of the same direction that wait for the bank, all want another row.
  bool settle(unsigned bank, bool unwanted) {
    Bank &b = *pinned(&banks_[bank]);
    const bool close =
        b.accesses >= close_after_ || (unwanted && t_.page == PagePolicy::open_adaptive);
    if (close) precharge(&b, std::max(b.precharge_at, now_));
    return close;
  }

 private:
  static constexpr std::uint32_t kClosed = ~std::uint32_t{0};

  struct Bank {
    Ps act_at = 0, precharge_at = 0, column_at = 0;
    std::uint32_t row = kClosed;
    unsigned accesses = 0;
    std::uint16_t group = 0, rank = 0;  // in limits_
  };
  /// The earliest commands of a rank, or of a bank group.
  struct Limits {
    Ps column_at[2] = {0, 0};
    Ps act_at = 0;
    Ps busy_until = 0;  // ranks: the end of a refresh
  };
  /// The last activates of a rank, a ring.
  struct Window {
    std::array<Ps, 16> at{};
    unsigned next = 0;
    unsigned seen = 0;
  };

  void set_distances() {
    const Ps read_to_write = t_.cl + t_.burst + t_.rtw - t_.cwl;
    const Ps write_to_data_end = t_.cwl + t_.burst;
    in_group_[0][0] = t_.ccd_l, in_group_[0][1] = read_to_write;
    in_group_[1][0] = write_to_data_end + t_.wtr_l, in_group_[1][1] = t_.ccd_l_wr;
    in_rank_[0][0] = t_.burst, in_rank_[0][1] = read_to_write;
    in_rank_[1][0] = write_to_data_end + t_.wtr, in_rank_[1][1] = t_.burst;
    // Between ranks only the data bus sets a distance.
    far_[0][0] = far_[1][1] = t_.burst + t_.cs;
    far_[0][1] = gap(t_.cl, t_.cwl), far_[1][0] = gap(t_.cwl, t_.cl);
    act_in_rank_ = grouped_ ? t_.rrd : std::max(t_.rrd, t_.rrd_l);
    if (grouped_) return;
    for (unsigned from = 0; from < 2; from++)
      for (unsigned to = 0; to < 2; to++)
        in_rank_[from][to] = std::max(in_rank_[from][to], in_group_[from][to]);
  }

  Ps column_at(const Bank &b, Dir d) const {
    const Ps at = std::max(b.column_at, limits_[b.rank].column_at[index(d)]);
    return grouped_ ? std::max(at, limits_[b.group].column_at[index(d)]) : at;
  }

  Ps act_at(const Bank &b) const {
    const Ps at = std::max(b.act_at, limits_[b.rank].act_at);
    return grouped_ ? std::max(at, limits_[b.group].act_at) : at;
  }

  /// When an entry's column command can come if it is next, whatever the data bus does.
  Ps served_at(const Entry &e, Dir d) const {
    const Ps column = column_at(e, d);
    return row_hit(e) ? column : std::max(column, activate_at(e) + t_.rcd);
  }

  /// When f's rank (or its bank group) allows another activate if f's row is opened first.
  Ps activate_after(const Entry &f, bool same_group) const {
    const Window &w = windows_[banks_[f.bank].rank];
    const unsigned limit = t_.activation_limit;
    const Ps at = activate_at(f), next = at + (same_group ? t_.rrd_l : t_.rrd);
    if (limit == 0 || w.seen + 1 < limit) return next;
    const Ps oldest = limit == 1 ? at : w.at[(w.next + 1) % limit];
    return std::max(next, oldest + t_.faw);
  }

  void precharge(Bank *b, Ps at) {
    b->row = kClosed;
    b->precharge_at = at;
    b->act_at = std::max(b->act_at, at + t_.rp);
  }

  void open_row(Bank *b, std::uint32_t row) {
    if (b->row != kClosed) precharge(b, std::max(b->precharge_at, now_));
    const Ps at = std::max(act_at(*b), now_);
    b->row = row;
    b->accesses = 0;
    b->precharge_at = at + t_.ras;
    b->column_at = std::max(b->column_at, at + t_.rcd);
    Limits &rank = limits_[b->rank];
    rank.act_at = std::max(rank.act_at, at + act_in_rank_);
    if (grouped_) {
      Limits &group = limits_[b->group];
      group.act_at = std::max(group.act_at, at + t_.rrd_l);
    }
    if (t_.activation_limit != 0) activated(b->rank, at);
  }

  /// The window opens again when its oldest activate has left it.
  void activated(unsigned rank, Ps at) {
    Window &w = windows_[rank];
    w.at[w.next] = at;
    if (++w.next == t_.activation_limit) w.next = 0;
    if (w.seen < t_.activation_limit) w.seen++;
    Ps &act_at = limits_[rank].act_at;
    if (w.seen == t_.activation_limit) act_at = std::max(act_at, w.at[w.next] + t_.faw);
  }

  void constrain_columns(const Bank &b, Dir d, Ps at) {
    const unsigned done = index(d);
    const auto both = [at](Limits *l, const Ps(&after)[2]) {
      l->column_at[0] = std::max(l->column_at[0], at + after[0]);
      l->column_at[1] = std::max(l->column_at[1], at + after[1]);
    };
    both(pinned(&limits_[b.rank]), in_rank_[done]);
    if (grouped_) both(&limits_[b.group], in_group_[done]);
    if (t_.ranks == 1) return;
    for (unsigned i = 0; i < t_.ranks; i++)
      if (i != b.rank) both(&limits_[i], far_[done]);
  }

  /// Least time from a column command with latency first to another rank's with latency
  /// second, so that their data do not overlap.
  Ps gap(Ps first, Ps second) const {
    const Ps end = first + t_.burst + t_.cs;
    return end > second ? end - second : 0;
  }

  [[gnu::noinline]] void refresh_ranks(Ps now) {
    next_refresh_ = kNever;
    for (unsigned i = 0; i < t_.ranks; i++) {
      while (refresh_due_[i] <= now) refresh_rank(i, now);
      next_refresh_ = std::min(next_refresh_, refresh_due_[i]);
    }
  }

  void refresh_rank(unsigned rank, Ps now) {
    Ps &due = refresh_due_[rank], &busy_until = limits_[rank].busy_until;
    // After a long idle time only the last refresh matters; the others are over.
    if (now - due > 2 * t_.refi) {
      const Ps skipped = (now - due) / t_.refi - 1;
      refreshes_ += skipped;
      due += skipped * t_.refi;
    }
    Ps start = std::max(due, busy_until);
    bool open = false;
    for (unsigned i = 0; i < t_.banks; i++) {
      Bank &b = banks_[rank * t_.banks + i];
      start = std::max(start, b.row != kClosed ? b.precharge_at : 0);
      open = open || b.row != kClosed;
    }
    Ps idle = start + (open ? t_.rp : 0);
    for (unsigned i = 0; i < t_.banks; i++) {
      Bank &b = banks_[rank * t_.banks + i];
      // A bank closed already may still be precharging.
      idle = std::max(idle, b.act_at);
      b.row = kClosed;
    }
    busy_until = idle + t_.rfc;
    all_ready_at_ = std::max(all_ready_at_, busy_until);
    for (unsigned i = 0; i < t_.banks; i++) banks_[rank * t_.banks + i].act_at = busy_until;
    due += t_.refi;
    refreshes_++;
  }

  Timing t_;
  std::array<Bank, kBanksMax> banks_;
  std::array<Limits, 2 * kBanksMax> limits_;  // of ranks, then of bank groups
  bool grouped_;                              // whether a rank has several bank groups
  unsigned close_after_;                      // so many bursts of a row
  // Least time from a column command to the next one, by direction of both. The next one is in
  // the same bank group, in the same rank, or in another rank.
  Ps in_group_[2][2], in_rank_[2][2], far_[2][2];
  Ps act_in_rank_;               // from an activate to the next one in the rank
  Ps latency_[2];                // from a column command to the end of its data
  Ps recovery_[2];               // and to the next precharge of its bank
  std::vector<Ps> refresh_due_;  // by rank
  std::vector<Window> windows_;  // by rank
  Ps now_ = 0;
  Ps next_refresh_;
  Ps all_ready_at_ = 0;  // the end of the last refresh that began
  std::uint64_t refreshes_ = 0;
};

}  // namespace drfq

#endif
