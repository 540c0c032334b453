// SPDX-License-Identifier: GPL-2.0-only
// The owners whose packets came lately, by virtual time, and what each claims of the queues.
// The admission by shares (admission.hh) reads them.
#ifndef DRFQ_OWNERS_HH
#define DRFQ_OWNERS_HH

#include <algorithm>
#include <cassert>
#include <vector>

#include "generated/registers.hh"
#include "units.hh"

namespace drfq {

/// An owner claims twice the entries that it held lately, at most its part of the queue: all of
/// it for the lowest virtual time, 1/n of it for the n-th lowest. Equal ones all count as the
/// last of them.
///
/// Time is counted in served bursts, because the core has no clock. An owner is active from a
/// packet, accepted or refused, for one to two epochs, and while it holds entries.
///
/// A controller with hundreds of owners refuses far more packets than it serves. So the sums over
/// owners are kept until an owner changes.
class Owners {
 public:
  /// Served bursts: 2 us of a busy LPDDR2-1066.
  static constexpr unsigned kEpoch = 256;
  /// Served bursts, in which all of an owner's packets were refused: 1 ms, as the aging bound.
  static constexpr unsigned kStarving = 512 * kEpoch;

  /// The queues' capacities.
  Owners(unsigned read_entries, unsigned write_entries)
      : place_(kPids, kNowhere), sums_{Sums(read_entries), Sums(write_entries)} {
    active_.reserve(kPids);
  }

  /// A packet came with its owner's present virtual time.
  [[gnu::noinline]] void arrived(Pid pid, VTime vtime) {
    Place &place = place_[pid];
    if (place == kNowhere) {
      place = static_cast<Place>(active_.size());
      active_.push_back({vtime, pid, 0, 0, {}});
      reorder(place);
    } else if (active_[place].vtime != vtime) {
      active_[place].vtime = vtime;
      reorder(place);
    }
    active_[place].epochs = 2;
  }

  /// Bursts of an owner were queued.
  [[gnu::noinline]] void queued(Pid pid, Dir d, unsigned bursts = 1) {
    Use &u = change(place_[pid], d);
    u.held += bursts;
    u.want = std::max(u.want, 2 * u.held);
    u.refused_from = kNotRefused;
    sums_[index(d)].held += bursts;
  }

  /// One burst of an owner was served.
  [[gnu::noinline]] void served(Pid pid, Dir d) {
    Use &u = change(place_[pid], d);
    assert(u.held != 0);
    u.held--;
    sums_[index(d)].held--;
    if (++bursts_ % kEpoch == 0) next_epoch();
  }

  /// A packet that came was refused: its owner may hold too little to show what it needs, so its
  /// claim doubles. Returns the entries that owners behind it hold of this claim.
  unsigned refused(Pid pid, Dir d, unsigned bursts) {
    const std::size_t at = place_[pid];
    Owner &o = active_[at];
    Use &u = o.use[index(d)];
    u.refused_from = std::min(u.refused_from, bursts_);
    first_refused_[index(d)] = std::min(first_refused_[index(d)], bursts_);
    if (u.held + bursts > u.part) return 0;
    const unsigned want = std::min(u.part, 2 * std::max(u.want, u.held + bursts));
    if (want != u.want) change(at, d).want = want;
    const unsigned behind = sums_[index(d)].held - through(o.rank - 1, d).held;
    return std::min(behind, u.unused());
  }

  /// What holds for each active owner of no lower a virtual time.
  struct Rest {
    unsigned part = ~0u;  ///< it may claim no more; ~0: there is none
    unsigned kept = 0;    ///< kept_from() it is no less
  };
  [[gnu::noinline]] Rest rest(VTime lowest, Dir d) const {
    const auto first =
        std::lower_bound(active_.begin(), active_.end(), lowest,
                         [](const Owner &o, VTime vtime) { return o.vtime < vtime; });
    if (first == active_.end()) return {};
    const unsigned part = first->use[index(d)].part;
    const unsigned end = std::min(first->rank, sums_[index(d)].capacity);
    const unsigned unused = through(end - 1, d).unused;
    // Of those before the end, it does not keep its own entries from itself.
    return {part, unused > part ? unused - part : 0};
  }

  /// Whether an active owner may claim fewer entries.
  bool has_part_below(unsigned entries, Dir d) const {
    return std::uint64_t{entries} * active_.size() > sums_[index(d)].capacity;
  }

  /// Whether an owner may enter wherever there is room: for long, all its packets were refused.
  bool starves(Pid pid, Dir d) const {
    return is_long_ago(active_[place_[pid]].use[index(d)].refused_from);
  }

  /// Whether starves() may be true of an owner.
  bool may_starve(Dir d) const { return is_long_ago(first_refused_[index(d)]); }

  /// How many epochs have passed.
  std::uint64_t epoch() const { return bursts_ / kEpoch; }

  /// Entries of its claim that an owner does not hold.
  unsigned unused(Pid pid, Dir d) const {
    const std::size_t at = place_[pid];
    return at == kNowhere ? 0 : active_[at].use[index(d)].unused();
  }

  /// The same of all other owners whose virtual times are not above that of this one, which is
  /// active.
  unsigned kept_from(Pid pid, Dir d) const {
    const Owner &o = active_[place_[pid]];
    const unsigned end = std::min(o.rank, sums_[index(d)].capacity);
    return through(end - 1, d).unused - o.use[index(d)].unused();
  }

  /// The state (state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.active_, self.bursts_);
    if constexpr (F::kReads) self.place_all();
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNowhere = 0xffff;
  static constexpr std::size_t kFew = 8;

  struct Use {
    unsigned held = 0;    ///< entries now
    unsigned want = 0;    ///< the claim, before its limit, in this epoch
    unsigned before = 0;  ///< and in the one before
    unsigned part = 0;    ///< of the queue, the limit
    /// Served bursts when the first packet since the last that entered was refused.
    std::uint64_t refused_from = kNotRefused;

    unsigned unused() const {
      const unsigned claim = std::min(part, std::max(want, before));
      return claim > held ? claim - held : 0;
    }

    template <class Self, class F>
    static void parts(Self &self, F &f) {
      f(self.held, self.want, self.before, self.part, self.refused_from);
    }
  };
  struct Owner {
    VTime vtime = 0;
    Pid pid = 0;
    unsigned epochs = 0;  ///< for which it stays active
    unsigned rank = 0;    ///< how many owners have no higher virtual time, itself included
    Use use[2];

    template <class Self, class F>
    static void parts(Self &self, F &f) {
      f(self.vtime, self.pid, self.epochs, self.rank, self.use);
    }
  };
  struct Sum {
    unsigned held = 0;
    unsigned unused = 0;

    void add(const Use &u) {
      held += u.held;
      unused += u.unused();
    }
  };
  /// Of one queue. An owner whose rank is above the capacity has no part, so sums end there.
  struct Sums {
    explicit Sums(unsigned entries) : capacity(entries), through(entries) {}

    unsigned capacity;
    unsigned held = 0;         ///< by all owners
    std::size_t valid = 0;     ///< so many of the sums hold
    std::vector<Sum> through;  ///< by place
  };

  static constexpr std::uint64_t kNotRefused = ~std::uint64_t{0};

  bool is_long_ago(std::uint64_t bursts) const {
    return bursts_ >= kStarving && bursts <= bursts_ - kStarving;
  }

  /// No owner that is active was refused earlier, but for those that have entered since.
  void find_first_refused() {
    for (Dir d : kDirs) {
      std::uint64_t &first = first_refused_[index(d)];
      first = kNotRefused;
      for (const Owner &o : active_) first = std::min(first, o.use[index(d)].refused_from);
    }
  }

  Use &change(std::size_t at, Dir d) {
    Sums &s = sums_[index(d)];
    s.valid = std::min(s.valid, at);
    return active_[at].use[index(d)];
  }

  /// Of the owners at a place and before it.
  Sum through(std::size_t at, Dir d) const {
    // To add up a few costs less than a branch that depends on how many sums hold.
    if (at >= kFew) return through_many(at, &sums_[index(d)], d);
    Sum few;
    for (std::size_t i = 0; i <= at; i++) few.add(active_[i].use[index(d)]);
    return few;
  }

  [[gnu::noinline]] Sum through_many(std::size_t at, Sums *s, Dir d) const {
    for (; s->valid <= at; s->valid++) {
      Sum &sum = s->through[s->valid];
      sum = s->valid == 0 ? Sum() : s->through[s->valid - 1];
      sum.add(active_[s->valid].use[index(d)]);
    }
    return s->through[at];
  }

  /// Restores the order and the ranks after one virtual time changed.
  [[gnu::noinline]] void reorder(std::size_t at) {
    const Owner o = active_[at];
    for (; at > 0 && o.vtime < active_[at - 1].vtime; at--) put(at, active_[at - 1]);
    for (; at + 1 < active_.size() && active_[at + 1].vtime < o.vtime; at++)
      put(at, active_[at + 1]);
    put(at, o);
    rank_all();
  }

  void put(std::size_t at, const Owner &o) {
    active_[at] = o;
    place_[o.pid] = static_cast<Place>(at);
  }

  /// Finds again what follows from the active owners.
  void place_all() {
    std::fill(place_.begin(), place_.end(), kNowhere);
    for (Sums &s : sums_) s.held = 0;
    for (std::size_t i = 0; i < active_.size(); i++) {
      place_.at(active_[i].pid) = static_cast<Place>(i);
      for (Dir d : kDirs) sums_[index(d)].held += active_[i].use[index(d)].held;
    }
    find_first_refused();
    rank_all();
  }

  void rank_all() {
    std::size_t end = 0;
    unsigned part[2] = {0, 0};
    for (std::size_t i = 0; i < active_.size(); i++) {
      Owner &o = active_[i];
      if (i == end) {
        while (end < active_.size() && active_[end].vtime == o.vtime) end++;
        for (Dir d : kDirs) part[index(d)] = sums_[index(d)].capacity / static_cast<unsigned>(end);
      }
      o.rank = static_cast<unsigned>(end);
      for (Dir d : kDirs) o.use[index(d)].part = part[index(d)];
    }
    for (Sums &s : sums_) s.valid = 0;
  }

  [[gnu::noinline]] void next_epoch() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); i++) {
      Owner o = active_[i];
      place_[o.pid] = kNowhere;
      if (o.epochs == 0 && o.use[0].held + o.use[1].held == 0) continue;
      if (o.epochs != 0) o.epochs--;
      for (Use &u : o.use) {
        u.before = u.want;
        u.want = 2 * u.held;
      }
      put(kept++, o);
    }
    active_.resize(kept);
    find_first_refused();
    rank_all();
  }

  static constexpr Dir kDirs[] = {Dir::read, Dir::write};

  std::vector<Owner> active_;  // by virtual time
  std::vector<Place> place_;   // by pid
  mutable Sums sums_[2];       // brought up to date when they are read
  std::uint64_t bursts_ = 0;
  std::uint64_t first_refused_[2] = {kNotRefused, kNotRefused};
};

}  // namespace drfq

#endif
