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

  explicit Dram(const Timing &t)
      : t_(t), banks_(t.banks * t.ranks), groups_(t.groups * t.ranks), ranks_(t.ranks) {
    for (unsigned i = 0; i < banks_.size(); i++) {
      const unsigned rank = i / t.banks;
      banks_[i].rank = static_cast<std::uint16_t>(rank);
      banks_[i].group = static_cast<std::uint16_t>(rank * t.groups + i % t.groups);
    }
    for (Rank &r : ranks_) r.refresh_due = t.refi;
    next_refresh_ = t.refi;
    const Ps read_to_write = t.cl + t.burst + t.rtw - t.cwl, write_to_data_end = t.cwl + t.burst;
    in_group_[0][0] = t.ccd_l, in_group_[0][1] = read_to_write;
    in_group_[1][0] = write_to_data_end + t.wtr_l, in_group_[1][1] = t.ccd_l_wr;
    in_rank_[0][0] = t.burst, in_rank_[0][1] = read_to_write;
    in_rank_[1][0] = write_to_data_end + t.wtr, in_rank_[1][1] = t.burst;
    // Between ranks only the data bus sets a distance.
    far_[0][0] = far_[1][1] = t.burst + t.cs;
    far_[0][1] = gap(t.cl, t.cwl), far_[1][0] = gap(t.cwl, t.cl);
  }

  const Timing &timing() const { return t_; }
  unsigned banks() const { return static_cast<unsigned>(banks_.size()); }
  std::uint64_t refreshes() const { return refreshes_; }
  std::uint64_t activates() const { return activates_; }

  /// Starts the refreshes that are due; returns whether any was. Call before looking at the banks.
  bool refresh(Ps now) {
    now_ = now;
    if (now < next_refresh_) return false;
    next_refresh_ = kNever;
    for (unsigned i = 0; i < t_.ranks; i++) {
      while (ranks_[i].refresh_due <= now) refresh_rank(i, now);
      next_refresh_ = std::min(next_refresh_, ranks_[i].refresh_due);
    }
    return true;
  }

  /// When the next rank that is being refreshed is available again; kNever: none is.
  Ps available_at() const {
    Ps at = kNever;
    for (const Rank &r : ranks_)
      if (r.busy_until > now_) at = std::min(at, r.busy_until);
    return at;
  }

  // The View of core/pick.hh, without its heads. The present is the time of the last
  // refresh() call.
  bool ready(const Entry &e) const { return rank_of(e.bank).busy_until <= now_; }
  bool row_hit(const Entry &e) const { return banks_[e.bank].row == e.row; }
  Ps row_to_column() const { return t_.rcd; }
  Ps column_at(const Entry &e, Dir d) const { return column_at(e.bank, d); }
  Ps activate_at(const Entry &e) const {
    const Bank &b = banks_[e.bank];
    const Ps precharged = b.row == kClosed ? 0 : std::max(b.precharge_at, now_) + t_.rp;
    return std::max({precharged, act_at(e.bank), now_});
  }

  /// Whether f can be served now without delaying e. e waits for another bank, in the same
  /// direction.
  bool fits_before(const Entry &f, const Entry &e, Dir d, Ps min_col_at) const {
    const Bank &mine = banks_[f.bank], &its = banks_[e.bank];
    const bool same_group = mine.group == its.group, same_rank = mine.rank == its.rank;
    const unsigned i = index(d);
    const Ps gap = std::max((same_rank ? in_rank_ : far_)[i][i], same_group ? in_group_[i][i] : 0);
    if (std::max(served_at(f, d), min_col_at) + gap > std::max(served_at(e, d), min_col_at))
      return false;
    return row_hit(f) || row_hit(e) || !same_rank ||
           activate_after(f, same_group) <= activate_at(e);
  }

  bool is_open(unsigned bank) const { return banks_[bank].row != kClosed; }
  bool is_open(unsigned bank, std::uint32_t row) const { return banks_[bank].row == row; }

  /// Issues a burst: precharge and activate as needed, the column command when
  /// bank and data bus allow it. bus_free: the earliest column command for the
  /// bus. settle() must follow.
  Burst issue(const Entry &e, Dir d, Ps bus_free) {
    Burst out;
    Bank &b = banks_[e.bank];
    out.row_hit = b.row == e.row;
    if (!out.row_hit) open_row(e.bank, e.row);
    out.column = std::max({column_at(e.bank, d), bus_free, now_});
    out.data_end = out.column + (d == Dir::read ? t_.cl : t_.cwl) + t_.burst;
    constrain_columns(e.bank, d, out.column);
    const Ps recovered = d == Dir::read ? out.column + t_.rtp : out.data_end + t_.wr;
    b.precharge_at = std::max(b.precharge_at, recovered);
    b.accesses++;
    return out;
  }

  /// Applies the page policy after a burst of the bank; returns whether it closes the row.
  /// hit, conflict: a burst of the same direction waits for this row, or for
  /// another row of the bank.
  bool settle(unsigned bank, bool hit, bool conflict) {
    Bank &b = banks_[bank];
    const bool close = t_.page == PagePolicy::closed ||
                       (t_.accesses_per_row != 0 && b.accesses >= t_.accesses_per_row) ||
                       (t_.page == PagePolicy::open_adaptive && conflict && !hit);
    if (close) precharge(&b, std::max(b.precharge_at, now_));
    return close;
  }

 private:
  static constexpr std::uint32_t kClosed = ~std::uint32_t{0};

  struct Bank {
    std::uint32_t row = kClosed;
    unsigned accesses = 0;
    Ps act_at = 0, precharge_at = 0, column_at = 0;
    std::uint16_t group = 0, rank = 0;
  };
  struct Group {
    Ps act_at = 0;
    Ps column_at[2] = {0, 0};
  };
  struct Rank {
    Ps act_at = 0;
    Ps column_at[2] = {0, 0};
    Ps refresh_due = 0, busy_until = 0;
    std::array<Ps, 16> window{};  // the last activates, a ring
    unsigned next = 0;
    unsigned seen = 0;
  };

  const Rank &rank_of(unsigned bank) const { return ranks_[banks_[bank].rank]; }
  Rank &rank_of(unsigned bank) { return ranks_[banks_[bank].rank]; }
  const Group &group_of(unsigned bank) const { return groups_[banks_[bank].group]; }
  Group &group_of(unsigned bank) { return groups_[banks_[bank].group]; }

  Ps column_at(unsigned bank, Dir d) const {
    return std::max({banks_[bank].column_at, group_of(bank).column_at[index(d)],
                     rank_of(bank).column_at[index(d)]});
  }

  Ps act_at(unsigned bank) const {
    return std::max({banks_[bank].act_at, group_of(bank).act_at, rank_of(bank).act_at});
  }

  /// When an entry's column command can come if it is next, whatever the data bus does.
  Ps served_at(const Entry &e, Dir d) const {
    const Ps column = column_at(e, d);
    return row_hit(e) ? column : std::max(column, activate_at(e) + t_.rcd);
  }

  /// When f's rank (or its bank group) allows another activate if f's row is opened first.
  Ps activate_after(const Entry &f, bool same_group) const {
    const Rank &r = rank_of(f.bank);
    const unsigned limit = t_.activation_limit;
    const Ps at = activate_at(f), next = at + (same_group ? t_.rrd_l : t_.rrd);
    if (limit == 0 || r.seen + 1 < limit) return next;
    const Ps oldest = limit == 1 ? at : r.window[(r.next + 1) % limit];
    return std::max(next, oldest + t_.faw);
  }

  void precharge(Bank *b, Ps at) {
    b->row = kClosed;
    b->precharge_at = at;
    b->act_at = std::max(b->act_at, at + t_.rp);
  }

  void open_row(unsigned bank, std::uint32_t row) {
    Bank &b = banks_[bank];
    Rank &r = rank_of(bank);
    if (b.row != kClosed) precharge(&b, std::max(b.precharge_at, now_));
    const Ps at = std::max(act_at(bank), now_);
    activates_++;
    b.row = row;
    b.accesses = 0;
    b.precharge_at = at + t_.ras;
    b.column_at = std::max(b.column_at, at + t_.rcd);
    group_of(bank).act_at = std::max(group_of(bank).act_at, at + t_.rrd_l);
    r.act_at = std::max(r.act_at, at + t_.rrd);
    if (t_.activation_limit == 0) return;
    r.window[r.next] = at;
    r.next = (r.next + 1) % t_.activation_limit;
    if (r.seen < t_.activation_limit) r.seen++;
    // The window opens again when its oldest activate has left it.
    if (r.seen == t_.activation_limit) r.act_at = std::max(r.act_at, r.window[r.next] + t_.faw);
  }

  void constrain_columns(unsigned bank, Dir d, Ps at) {
    const unsigned done = index(d);
    const auto both = [at](Ps(&column_at)[2], const Ps(&after)[2]) {
      column_at[0] = std::max(column_at[0], at + after[0]);
      column_at[1] = std::max(column_at[1], at + after[1]);
    };
    Rank &own = rank_of(bank);
    both(group_of(bank).column_at, in_group_[done]);
    both(own.column_at, in_rank_[done]);
    for (Rank &r : ranks_)
      if (&r != &own) both(r.column_at, far_[done]);
  }

  /// Least time from a column command with latency first to another rank's with latency
  /// second, so that their data do not overlap.
  Ps gap(Ps first, Ps second) const {
    const Ps end = first + t_.burst + t_.cs;
    return end > second ? end - second : 0;
  }

  void refresh_rank(unsigned rank, Ps now) {
    Rank &r = ranks_[rank];
    // After a long idle time only the last refresh matters; the others are over.
    if (now - r.refresh_due > 2 * t_.refi) {
      const Ps skipped = (now - r.refresh_due) / t_.refi - 1;
      refreshes_ += skipped;
      r.refresh_due += skipped * t_.refi;
    }
    Ps start = std::max(r.refresh_due, r.busy_until);
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
    const Ps done = idle + t_.rfc;
    for (unsigned i = 0; i < t_.banks; i++) banks_[rank * t_.banks + i].act_at = done;
    r.busy_until = done;
    r.refresh_due += t_.refi;
    refreshes_++;
  }

  Timing t_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::vector<Rank> ranks_;
  // Least time from a column command to the next one, by direction of both. The next one is in
  // the same bank group, in the same rank, or in another rank.
  Ps in_group_[2][2], in_rank_[2][2], far_[2][2];
  Ps now_ = 0;
  Ps next_refresh_;
  std::uint64_t refreshes_ = 0;
  std::uint64_t activates_ = 0;
};

}  // namespace drfq

#endif
