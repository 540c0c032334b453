// SPDX-License-Identifier: GPL-2.0-only
// The claims of owners and the admission by shares beside a plain form of the rule, which keeps no
// order and no sums.
#include "core/owners.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "core/admission.hh"

namespace drfq {
namespace {

constexpr Pid kMostPids = 300;

/// The rule as docs/decisions/0037-claims-on-queues.md states it.
class PlainOwners {
 public:
  PlainOwners(unsigned read_entries, unsigned write_entries)
      : capacity_{read_entries, write_entries} {}

  void arrived(Pid pid, VTime vtime) {
    Owner &o = owners_[pid];
    o.active = true;
    o.vtime = vtime;
    o.epochs = 2;
  }

  void queued(Pid pid, unsigned d, unsigned bursts) {
    Owner &o = owners_[pid];
    o.held[d] += bursts;
    o.want[d] = std::max(o.want[d], 2 * o.held[d]);
    o.refused[d] = false;
  }

  void served(Pid pid, unsigned d) {
    owners_[pid].held[d]--;
    if (++bursts_ % Owners::kEpoch != 0) return;
    for (Owner &o : owners_) {
      if (o.epochs == 0 && o.held[0] == 0 && o.held[1] == 0) o = Owner();
      o.epochs = o.epochs == 0 ? 0 : o.epochs - 1;
      for (unsigned i : {0u, 1u}) o.before[i] = o.want[i], o.want[i] = 2 * o.held[i];
    }
  }

  unsigned refused(Pid pid, unsigned d, unsigned bursts) {
    Owner &o = owners_[pid];
    const unsigned part = part_of(o, d);
    if (!o.refused[d]) o.refused_from[d] = bursts_;
    o.refused[d] = true;
    if (o.held[d] + bursts > part) return 0;
    o.want[d] = std::min(part, 2 * std::max(o.want[d], o.held[d] + bursts));
    unsigned behind = 0;
    for (const Owner &other : owners_)
      if (other.active && other.vtime > o.vtime) behind += other.held[d];
    return std::min(behind, unused(pid, d));
  }

  unsigned unused(Pid pid, unsigned d) const {
    const Owner &o = owners_[pid];
    const unsigned want = std::max(o.want[d], o.before[d]);
    if (!o.active || want <= o.held[d]) return 0;
    const unsigned claim = std::min(part_of(o, d), want);
    return claim > o.held[d] ? claim - o.held[d] : 0;
  }

  unsigned kept_from(Pid pid, unsigned d) const {
    unsigned kept = 0;
    for (Pid other = 0; other < kMostPids; other++)
      if (other != pid && owners_[other].active && owners_[other].vtime <= owners_[pid].vtime)
        kept += unused(other, d);
    return kept;
  }

  Admission admit(const Queue &q, unsigned d, unsigned in_flight, unsigned bursts, Pid pid) const {
    const unsigned used = q.size() + in_flight;
    if (used + bursts > capacity_[d]) return Admission::full;
    if (used == 0 || (used + bursts) * 8 <= capacity_[d]) return Admission::accepted;
    const Owner &o = owners_[pid];
    if (o.refused[d] && bursts_ - o.refused_from[d] >= Owners::kStarving)
      return Admission::accepted;
    const bool reserve = used * 10 > capacity_[d] * 9 && !q.empty();
    if (reserve && owners_[pid].vtime >= q.head().vtime && unused(pid, d) < bursts)
      return Admission::reserved;
    return used + bursts + kept_from(pid, d) > capacity_[d] ? Admission::reserved
                                                            : Admission::accepted;
  }

 private:
  struct Owner {
    bool active = false;
    VTime vtime = 0;
    unsigned epochs = 0;
    unsigned held[2] = {0, 0}, want[2] = {0, 0}, before[2] = {0, 0};
    bool refused[2] = {false, false};  ///< since the last packet that entered
    std::uint64_t refused_from[2] = {0, 0};
  };

  unsigned part_of(const Owner &o, unsigned d) const {
    unsigned rank = 0;
    for (const Owner &other : owners_) rank += other.active && other.vtime <= o.vtime;
    return capacity_[d] / rank;
  }

  unsigned capacity_[2];
  std::array<Owner, kMostPids> owners_;
  std::uint64_t bursts_ = 0;
};

/// Both forms behind the same two queues, and random packets.
class Pair {
 public:
  explicit Pair(unsigned seed)
      : random_(seed),
        queues_{Queue(1 + below(256)), Queue(1 + below(256))},
        owners_(queues_[0].capacity(), queues_[1].capacity()),
        plain_(queues_[0].capacity(), queues_[1].capacity()),
        pids_(one_of({1, 2, 3, 8, 40, kMostPids})),
        vtimes_(one_of({1, 2, 5, 400})),
        vtime_changes_(one_of({2, 20, 1000})),
        serves_(one_of({1, 3, 9})) {}

  /// Returns how many packets were accepted, reserved and full.
  void run(unsigned steps, unsigned (*verdicts)[3]) {
    for (unsigned i = 0; i < steps && !::testing::Test::HasFatalFailure(); i++) {
      if (below(10) < serves_)
        serve();
      else
        send(verdicts);
    }
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  unsigned one_of(std::initializer_list<unsigned> of) { return of.begin()[below(of.size())]; }

  void send(unsigned (*verdicts)[3]) {
    const Pid pid = below(pids_);
    const Dir d = below(3) == 0 ? Dir::write : Dir::read;
    const unsigned i = index(d), bursts = 1 + below(4), in_flight = below(3);
    const auto vtime = vtime_of_.emplace(pid, below(vtimes_)).first;
    if (below(vtime_changes_) == 0) vtime->second = below(vtimes_);
    owners_.arrived(pid, vtime->second);
    plain_.arrived(pid, vtime->second);
    ASSERT_EQ(owners_.unused(pid, d), plain_.unused(pid, i));
    ASSERT_EQ(owners_.kept_from(pid, d), plain_.kept_from(pid, i));
    const Admission a = admit_share(queues_[i], owners_, d, in_flight, bursts, pid, vtime->second);
    ASSERT_EQ(a, plain_.admit(queues_[i], i, in_flight, bursts, pid));
    (*verdicts)[static_cast<unsigned>(a)]++;
    if (a != Admission::accepted) {
      ASSERT_EQ(owners_.refused(pid, d, bursts), plain_.refused(pid, i, bursts));
      return;
    }
    Entry e;
    e.vtime = vtime->second;
    e.seq = seq_ += bursts;
    e.pid = static_cast<std::uint16_t>(pid);
    // Some bursts need no entry: they merge, or the write queue answers them.
    e.bursts = static_cast<std::uint16_t>(below(bursts + 1));
    if (e.bursts == 0) return;
    queues_[i].insert(e);
    owners_.queued(pid, d, e.bursts);
    plain_.queued(pid, i, e.bursts);
  }

  void serve() {
    const Dir d = queues_[0].empty() || below(2) == 0 ? Dir::write : Dir::read;
    Queue &q = queues_[index(d)];
    if (q.empty()) return;
    const Pid pid = q.remove(below(q.entries())).pid;
    owners_.served(pid, d);
    plain_.served(pid, index(d));
    const Pid other = below(pids_);
    ASSERT_EQ(owners_.unused(other, d), plain_.unused(other, index(d)));
  }

  std::mt19937 random_;
  Queue queues_[2];
  Owners owners_;
  PlainOwners plain_;
  std::map<Pid, VTime> vtime_of_;
  std::uint64_t seq_ = 0;
  const unsigned pids_, vtimes_;
  const unsigned vtime_changes_;  ///< one packet of so many comes with another virtual time
  const unsigned serves_;         ///< of ten steps
};

TEST(OwnersBesideThePlainRule, EveryAnswerIsTheSame) {
  unsigned verdicts[3] = {0, 0, 0};
  for (unsigned seed = 1; seed <= 3000; seed++) {
    SCOPED_TRACE(seed);
    // Most queues fill within a few hundred steps. The long runs have several epochs.
    Pair(seed).run(seed % 20 == 0 ? 3000 : 200, &verdicts);
    if (HasFatalFailure()) return;
  }
  for (const unsigned n : verdicts) EXPECT_GT(n, 50000u);
}

TEST(StarvingOwner, EntersOnceItWasRefusedForTheBound) {
  constexpr Pid kFirst = 1, kLast = 2;
  constexpr VTime kLow = 10, kHigh = 20;
  Queue q(128);
  Owners owners(128, 128);
  std::uint64_t seq = 0;
  const auto enter = [&](Pid pid, VTime vtime) {
    q.insert({vtime, seq++, 0, 0, 0, 0, static_cast<std::uint16_t>(pid), 1});
    owners.queued(pid, Dir::read);
  };
  const auto send = [&](Pid pid, VTime vtime) {
    owners.arrived(pid, vtime);
    const Admission a = admit_share(q, owners, Dir::read, 0, 1, pid, vtime);
    if (a == Admission::accepted)
      enter(pid, vtime);
    else
      owners.refused(pid, Dir::read, 1);
    return a;
  };
  // The first holds half of the queue for ever, so it claims all of it.
  for (unsigned i = 0; i < 64; i++) send(kFirst, kLow);
  const auto bursts_until_the_last_enters = [&] {
    for (unsigned bursts = 0;; bursts++) {
      const bool may = owners.may_starve(Dir::read);
      if (send(kLast, kHigh) == Admission::accepted) {
        EXPECT_TRUE(may) << "after " << bursts;
        return bursts;
      }
      const Pid pid = q.remove(0).pid;
      owners.served(pid, Dir::read);
      send(kFirst, kLow);
    }
  };
  EXPECT_EQ(bursts_until_the_last_enters(), Owners::kStarving);
  EXPECT_EQ(bursts_until_the_last_enters(), Owners::kStarving);
}

}  // namespace
}  // namespace drfq
