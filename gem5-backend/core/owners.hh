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
class Owners {
 public:
  /// Served bursts: 2 us of a busy LPDDR2-1066.
  static constexpr unsigned kEpoch = 256;

  Owners() : place_(kPids, kNowhere) { active_.reserve(kPids); }

  /// A packet came with its owner's present virtual time.
  void arrived(Pid pid, VTime vtime) {
    if (place_[pid] == kNowhere) {
      place_[pid] = static_cast<Place>(active_.size());
      active_.push_back({vtime, pid, 0, {}});
    }
    active_[place_[pid]].vtime = vtime;
    move(place_[pid]);
    active_[place_[pid]].epochs = 2;
  }

  /// Bursts of an owner were queued.
  void queued(Pid pid, Dir d, unsigned bursts = 1) {
    Use &u = active_[place_[pid]].use[index(d)];
    u.held += bursts;
    u.want = std::max(u.want, 2 * u.held);
  }

  /// One burst of an owner was served.
  void served(Pid pid, Dir d) {
    Use &u = active_[place_[pid]].use[index(d)];
    assert(u.held != 0);
    u.held--;
    if (++bursts_ % kEpoch == 0) next_epoch();
  }

  /// A packet that came was refused: its owner may hold too little to show what it needs, so its
  /// claim doubles. Returns the entries that owners behind it hold of this claim.
  unsigned refused(Pid pid, Dir d, unsigned bursts, unsigned capacity) {
    const std::size_t at = place_[pid];
    Use &u = active_[at].use[index(d)];
    const unsigned part = capacity / rank(at);
    if (u.held + bursts > part) return 0;
    u.want = std::min(part, 2 * std::max(u.want, u.held + bursts));
    unsigned behind = 0;
    for (std::size_t i = rank(at); i < active_.size(); i++) behind += active_[i].use[index(d)].held;
    return std::min(behind, unused(active_[at], d, part));
  }

  /// Entries of its claim that an owner does not hold.
  unsigned unused(Pid pid, Dir d, unsigned capacity) const {
    const std::size_t at = place_[pid];
    return at == kNowhere ? 0 : unused(active_[at], d, capacity / rank(at));
  }

  /// The same of all other owners whose virtual times are not above vtime.
  unsigned kept_from(Pid pid, VTime vtime, Dir d, unsigned capacity) const {
    unsigned kept = 0, last = 0;
    for (unsigned i = 0; i < active_.size() && active_[i].vtime <= vtime; i++) {
      if (i >= last) last = rank(i);
      if (active_[i].pid != pid) kept += unused(active_[i], d, capacity / last);
    }
    return kept;
  }

 private:
  using Place = std::uint16_t;
  static constexpr Place kNowhere = 0xffff;

  struct Use {
    unsigned held = 0;    ///< entries now
    unsigned want = 0;    ///< the claim, before its limit, in this epoch
    unsigned before = 0;  ///< and in the one before
  };
  struct Owner {
    VTime vtime = 0;
    Pid pid = 0;
    unsigned epochs = 0;  ///< for which it stays active
    Use use[2];
  };

  /// How many owners have no higher virtual time, itself included.
  unsigned rank(std::size_t at) const {
    std::size_t n = at + 1;
    while (n < active_.size() && active_[n].vtime == active_[at].vtime) n++;
    return static_cast<unsigned>(n);
  }

  static unsigned unused(const Owner &o, Dir d, unsigned part) {
    const Use &u = o.use[index(d)];
    const unsigned claim = std::min(part, std::max(u.want, u.before));
    return claim > u.held ? claim - u.held : 0;
  }

  void exchange(std::size_t a, std::size_t b) {
    std::swap(active_[a], active_[b]);
    place_[active_[a].pid] = static_cast<Place>(a);
    place_[active_[b].pid] = static_cast<Place>(b);
  }

  /// Restores the order after one virtual time changed.
  void move(std::size_t at) {
    for (; at > 0 && active_[at].vtime < active_[at - 1].vtime; at--) exchange(at, at - 1);
    for (; at + 1 < active_.size() && active_[at + 1].vtime < active_[at].vtime; at++)
      exchange(at, at + 1);
  }

  void next_epoch() {
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
      place_[o.pid] = static_cast<Place>(kept);
      active_[kept++] = o;
    }
    active_.resize(kept);
  }

  std::vector<Owner> active_;  // by virtual time
  std::vector<Place> place_;   // by pid
  std::uint64_t bursts_ = 0;
};

}  // namespace drfq

#endif
