// SPDX-License-Identifier: GPL-2.0-only
// One test per rule of the controller, without a DRAM model.
#include "core/controller.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace drfq {
namespace {

Entry entry(VTime vtime, std::uint64_t seq, std::uint16_t bank = 0, std::uint32_t row = 0) {
  Entry e;
  e.vtime = vtime;
  e.seq = seq;
  e.arrival = seq * 1000;
  e.bank = bank;
  e.row = row;
  e.handle = static_cast<std::uint16_t>(seq);
  return e;
}

Queue filled(unsigned capacity, unsigned n, VTime vtime) {
  Queue q(capacity);
  for (unsigned i = 0; i < n; i++) q.insert(entry(vtime, i));
  return q;
}

/// Banks whose open rows a test sets.
struct FakeBanks : PlainView<FakeBanks> {
  std::uint32_t row[8] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
  bool busy[8] = {};
  Ps column[8] = {};
  Ps activate[8] = {};
  bool fits[8] = {};
  bool ready(const Entry &e) const { return !busy[e.bank]; }
  bool row_hit(const Entry &e) const { return row[e.bank] == e.row; }
  Ps column_at(const Entry &e, Dir) const { return column[e.bank]; }
  Ps activate_at(const Entry &e) const { return activate[e.bank]; }
  Ps row_to_column() const { return 15000; }
  static constexpr bool kTellsFit = true;
  Ps served_at(const Entry &, Dir, Ps min_col_at) const { return min_col_at; }
  Ps shortest_gap() const { return 0; }
  bool fits_before(const Entry &f, const Entry &, Dir, Ps, Ps) const { return fits[f.bank]; }
};

TEST(QueueOrder, EntriesAreInOrderOfVirtualTimeThenArrival) {
  std::mt19937 rng(1);
  for (int round = 0; round < 200; round++) {
    Queue q(128);
    std::vector<Entry> model;
    for (std::uint64_t seq = 0; seq < 400; seq++) {
      if (q.size() == 128 || (q.size() > 0 && rng() % 3 == 0)) {
        const unsigned place = rng() % q.size();
        EXPECT_EQ(q.at(place).seq, model[place].seq);
        q.remove(place);
        model.erase(model.begin() + place);
      } else {
        const Entry e = entry(rng() % 5, seq);
        q.insert(e);
        model.push_back(e);
        std::stable_sort(model.begin(), model.end(),
                         [](const Entry &a, const Entry &b) { return a.vtime < b.vtime; });
      }
      ASSERT_EQ(q.size(), model.size());
      for (unsigned i = 0; i < q.size(); i++) ASSERT_EQ(q.at(i).seq, model[i].seq);
    }
  }
}

TEST(QueueOrder, AnEntryOfThreeBurstsStaysUntilTheLastIsTaken) {
  Queue q(8);
  Entry e = entry(5, 10, 2);
  e.bursts = 3;
  q.insert(e);
  q.insert(entry(5, 13, 2));
  EXPECT_EQ(q.size(), 4u);
  EXPECT_EQ(q.entries(), 2u);
  for (std::uint64_t seq = 10; seq < 13; seq++) {
    EXPECT_EQ(q.head().seq, seq);
    EXPECT_EQ(q.size(), 14 - seq);
    q.remove(0);
  }
  EXPECT_EQ(q.entries(), 1u);
  EXPECT_EQ(q.first_of(2), q.slot_at(0));
  EXPECT_EQ(q.head().seq, 13u);
}

TEST(Admission, FullRefusesWhateverTheVirtualTime) {
  EXPECT_EQ(admit(filled(128, 128, 5), 0, 1, 0), Admission::full);
  EXPECT_EQ(admit(filled(128, 127, 5), 0, 2, 0), Admission::full);
  EXPECT_EQ(admit(filled(128, 100, 5), 28, 1, 0), Admission::full);
}

TEST(Admission, AboveNinetyPercentOnlyLowerThanTheHead) {
  // 90 % of 128 is 115.2: 115 entries are below, 116 above.
  EXPECT_EQ(admit(filled(128, 115, 5), 0, 1, 9), Admission::accepted);
  EXPECT_EQ(admit(filled(128, 116, 5), 0, 1, 9), Admission::reserved);
  EXPECT_EQ(admit(filled(128, 116, 5), 0, 1, 5), Admission::reserved) << "equal is not lower";
  EXPECT_EQ(admit(filled(128, 116, 5), 0, 1, 4), Admission::accepted);
  EXPECT_EQ(admit(filled(128, 100, 5), 16, 1, 5), Admission::reserved) << "in flight counts";
}

TEST(Admission, AnEmptyQueueHasNoLowest) {
  EXPECT_EQ(admit(Queue(128), 120, 1, 9), Admission::accepted);
}

TEST(Owners, AClaimIsTwiceWhatWasHeldForTwoEpochs) {
  Owners o(128, 128);
  o.arrived(7, 1);
  EXPECT_EQ(o.unused(7, Dir::read), 0u);
  for (int i = 0; i < 5; i++) o.queued(7, Dir::read);
  EXPECT_EQ(o.unused(7, Dir::read), 5u);
  EXPECT_EQ(o.unused(7, Dir::write), 0u) << "of the other queue";
  for (int i = 0; i < 5; i++) o.served(7, Dir::read);
  EXPECT_EQ(o.unused(7, Dir::read), 10u);
  o.arrived(8, 2);
  for (unsigned i = 0; i < 3 * Owners::kEpoch; i++) {
    o.arrived(8, 2);
    o.queued(8, Dir::read);
    o.served(8, Dir::read);
  }
  EXPECT_EQ(o.unused(7, Dir::read), 0u) << "no longer active";
  EXPECT_EQ(o.kept_from(8, Dir::read), 0u);
}

TEST(Owners, AClaimIsNoMoreThanTheQueue) {
  Owners o(8, 128);
  o.arrived(7, 1);
  o.queued(7, Dir::read, 5);
  EXPECT_EQ(o.unused(7, Dir::read), 3u);
}

TEST(Owners, RoomIsKeptForThoseBeforeAndThoseEqual) {
  Owners o(96, 96);
  for (Pid pid : {1u, 2u, 3u}) {
    o.arrived(pid, pid == 1 ? 4 : 5);
    for (int i = 0; i < 20; i++) o.queued(pid, Dir::write);
  }
  EXPECT_EQ(o.kept_from(3, Dir::write), 20u + 12u) << "a third of 96 for each of the last two";
  EXPECT_EQ(o.kept_from(1, Dir::write), 0u);
  o.arrived(3, 3);
  EXPECT_EQ(o.kept_from(3, Dir::write), 0u);
  EXPECT_EQ(o.kept_from(1, Dir::write), 20u);
}

TEST(Owners, ARefusedOwnerClaimsTwiceAsMuchAndLacksWhatThoseBehindHold) {
  Owners o(32, 32);
  o.arrived(2, 9);
  for (int i = 0; i < 30; i++) o.queued(2, Dir::read);
  o.arrived(1, 3);
  EXPECT_EQ(o.refused(1, Dir::read, 2), 4u);
  EXPECT_EQ(o.refused(1, Dir::read, 2), 8u);
  EXPECT_EQ(o.refused(2, Dir::read, 2), 0u) << "it holds more than its part";
  o.arrived(2, 3);
  EXPECT_EQ(o.refused(1, Dir::read, 2), 0u) << "nobody is behind";
}

TEST(AdmissionByShares, AnEqualPacketEntersTheReserveWithinItsOwnersClaim) {
  const Queue q = filled(128, 120, 5);
  Owners o(128, 128);
  o.arrived(1, 5);
  EXPECT_EQ(admit(q, 0, 1, 5), Admission::reserved);
  EXPECT_EQ(admit_share(q, o, Dir::read, 0, 1, 1, 5), Admission::reserved);
  o.queued(1, Dir::read);
  EXPECT_EQ(admit_share(q, o, Dir::read, 0, 1, 1, 5), Admission::accepted);
  EXPECT_EQ(admit_share(q, o, Dir::read, 8, 1, 1, 5), Admission::full);
}

TEST(AdmissionByShares, ThoseBehindLeaveTheRoomOfTheFirst) {
  Owners o(128, 128);
  o.arrived(1, 3);
  for (int i = 0; i < 20; i++) o.queued(1, Dir::read);
  for (int i = 0; i < 20; i++) o.served(1, Dir::read);
  o.arrived(2, 4);
  EXPECT_EQ(admit_share(filled(128, 87, 4), o, Dir::read, 0, 1, 2, 4), Admission::accepted);
  EXPECT_EQ(admit_share(filled(128, 88, 4), o, Dir::read, 0, 1, 2, 4), Admission::reserved);
  EXPECT_EQ(admit_share(filled(128, 88, 4), o, Dir::read, 0, 1, 1, 3), Admission::accepted);
  for (int i = 0; i < 64; i++) o.queued(1, Dir::read);
  for (int i = 0; i < 64; i++) o.served(1, Dir::read);
  EXPECT_EQ(admit_share(filled(128, 15, 4), o, Dir::read, 0, 1, 2, 4), Admission::accepted);
  EXPECT_EQ(admit_share(filled(128, 16, 4), o, Dir::read, 0, 1, 2, 4), Admission::reserved);
  EXPECT_EQ(admit_share(Queue(4), o, Dir::read, 0, 2, 2, 4), Admission::accepted) << "empty";
}

Dir by_heads(const Queue &r, const Queue &w, Dir now, unsigned run, const Runs &shortest = {}) {
  return lower_of(r, r.empty() ? 0 : r.head().vtime, w, w.empty() ? 0 : w.head().vtime, now, run,
                  shortest);
}

TEST(Direction, TheQueueWithTheLowerHeadIsServed) {
  EXPECT_EQ(by_heads(filled(128, 1, 3), filled(128, 1, 4), Dir::write, 1), Dir::read);
  EXPECT_EQ(by_heads(filled(128, 1, 4), filled(128, 1, 3), Dir::read, 1), Dir::write);
  EXPECT_EQ(by_heads(filled(128, 1, 4), Queue(128), Dir::write, 1), Dir::read);
  EXPECT_EQ(by_heads(Queue(128), filled(128, 1, 4), Dir::read, 1), Dir::write);
}

TEST(Direction, ARunOfBurstsGoesOnWhileItsQueueHasEntries) {
  const Runs runs{64, 16};
  const Queue early = filled(128, 1, 3), late = filled(128, 1, 4), none(128);
  EXPECT_EQ(by_heads(early, late, Dir::write, 15, runs), Dir::write);
  EXPECT_EQ(by_heads(early, late, Dir::write, 16, runs), Dir::read);
  EXPECT_EQ(by_heads(late, early, Dir::read, 15, runs), Dir::read);
  EXPECT_EQ(by_heads(late, early, Dir::read, 16, runs), Dir::write);
  EXPECT_EQ(by_heads(late, none, Dir::write, 1, runs), Dir::read);
  EXPECT_EQ(by_heads(none, late, Dir::read, 1, runs), Dir::write);
}

TEST(Direction, TiesKeepTheBusThenGoToTheOlderHead) {
  Queue reads(128), writes(128);
  reads.insert(entry(5, 10));
  writes.insert(entry(5, 3));
  EXPECT_EQ(by_heads(reads, writes, Dir::read, 63), Dir::read);
  EXPECT_EQ(by_heads(reads, writes, Dir::read, 64), Dir::write);
  EXPECT_EQ(by_heads(reads, writes, Dir::write, 64), Dir::write) << "the older stays";
}

TEST(WriteDrain, ABatchIsServedWhenItsQueueIsFullAndThenByAge) {
  const WriteDrain d;
  const Queue none(128), few = filled(128, 40, 0), half = filled(128, 65, 0);
  EXPECT_EQ(d.batch(none, filled(128, 64, 0), Dir::read, 99, 32, false), Dir::read);
  EXPECT_EQ(d.batch(none, half, Dir::read, 1, 32, false), Dir::write);
  EXPECT_EQ(d.batch(none, few, Dir::read, 1, 32, true), Dir::write) << "one was refused";
  EXPECT_EQ(d.batch(none, filled(128, 49, 0), Dir::write, 99, 32, false), Dir::write);
  EXPECT_EQ(d.batch(none, filled(128, 48, 0), Dir::write, 99, 32, false), Dir::read);
  Queue read(128), old = filled(128, 108, 0);
  read.insert(entry(0, 50));
  EXPECT_EQ(d.batch(read, few, Dir::write, 15, 32, false), Dir::write) << "16 writes at least";
  EXPECT_EQ(d.batch(read, old, Dir::write, 16, 32, false), Dir::read);
  EXPECT_EQ(d.batch(read, old, Dir::read, 32, 32, false), Dir::read);
  EXPECT_EQ(d.batch(read, old, Dir::read, 31, 32, true), Dir::read);
  EXPECT_EQ(d.batch(read, old, Dir::read, 32, 32, true), Dir::write) << "its head is older";
  old = filled(128, 109, 0);
  EXPECT_EQ(d.batch(read, old, Dir::read, 32, 32, false), Dir::write);
  Queue younger(128);
  younger.insert(entry(0, 60));
  EXPECT_EQ(d.batch(read, younger, Dir::write, 16, 32, true), Dir::read);
}

TEST(WriteDrain, TheBaselineDrainsBetweenItsWatermarks) {
  const WriteDrain d;
  const Queue none(128), some = filled(128, 4, 0);
  EXPECT_EQ(d.after(some, filled(128, 108, 0), Dir::read, 16), Dir::read);
  EXPECT_EQ(d.after(some, filled(128, 109, 0), Dir::read, 16), Dir::write);
  EXPECT_EQ(d.after(some, filled(128, 109, 0), Dir::read, 15), Dir::read) << "16 reads at least";
  EXPECT_EQ(d.after(none, filled(128, 109, 0), Dir::read, 1), Dir::write) << "none is left";
  EXPECT_EQ(d.after(some, filled(128, 100, 0), Dir::write, 15), Dir::write);
  EXPECT_EQ(d.after(some, filled(128, 100, 0), Dir::write, 16), Dir::read);
  EXPECT_EQ(d.after(none, filled(128, 100, 0), Dir::write, 99), Dir::write);
  EXPECT_EQ(d.after(none, filled(128, 47, 0), Dir::write, 99), Dir::read);
  EXPECT_EQ(d.after(none, none, Dir::write, 99), Dir::read);
  EXPECT_EQ(d.next(some, filled(128, 128, 0), Dir::read), Dir::read) << "decided before they came";
  EXPECT_EQ(d.next(none, filled(128, 64, 0), Dir::read), Dir::read);
  EXPECT_EQ(d.next(none, filled(128, 65, 0), Dir::read), Dir::write);
  EXPECT_EQ(d.next(some, filled(128, 1, 0), Dir::write), Dir::write);
}

TEST(Pick, FirstRowHitElseLowestVirtualTime) {
  Queue q(128);
  q.insert(entry(7, 0, 0, 1));
  q.insert(entry(3, 1, 1, 1));
  q.insert(entry(5, 2, 2, 1));
  q.insert(entry(6, 3, 2, 1));
  FakeBanks banks;
  EXPECT_EQ(q.at(pick_first_ready(q, Dir::read, banks)).seq, 1u);
  banks.row[2] = 1;
  EXPECT_EQ(q.at(pick_first_ready(q, Dir::read, banks)).seq, 2u) << "the first hit in queue order";
  banks.busy[2] = true;
  EXPECT_EQ(q.at(pick_first_ready(q, Dir::read, banks)).seq, 1u);
  banks.busy[0] = banks.busy[1] = true;
  EXPECT_EQ(pick_first_ready(q, Dir::read, banks), q.size());
}

TEST(PickBaseline, SeamlessHitHiddenPreparationHitEarliestBank) {
  Queue q(128);
  q.insert(entry(0, 0, 0, 1));
  q.insert(entry(0, 1, 1, 1));
  q.insert(entry(0, 2, 2, 1));
  FakeBanks banks;
  const Ps bus = 100000;
  // No row open: the bank that is ready first.
  banks.activate[0] = 200000, banks.activate[1] = 150000, banks.activate[2] = 160000;
  EXPECT_EQ(pick_frfcfs(q, Dir::read, banks, bus, 0), 1u);
  // A hit that would leave a gap beats a miss that costs more.
  banks.row[2] = 1, banks.column[2] = 110000;
  EXPECT_EQ(pick_frfcfs(q, Dir::read, banks, bus, 0), 2u);
  // A miss whose activate hides behind the current bursts beats that hit.
  banks.activate[0] = 80000;
  EXPECT_EQ(pick_frfcfs(q, Dir::read, banks, bus, 0), 0u);
  // A seamless hit beats all.
  banks.column[2] = bus;
  EXPECT_EQ(pick_frfcfs(q, Dir::read, banks, bus, 0), 2u);
}

TEST(PickBaseline, LooksNoFurtherThanTheLowestVirtualTime) {
  Queue q(128);
  q.insert(entry(3, 0, 0, 1));
  q.insert(entry(3, 1, 1, 1));
  q.insert(entry(4, 2, 2, 1));
  FakeBanks banks;
  banks.row[2] = 1;  // a seamless hit of a higher virtual time
  banks.activate[0] = 300000, banks.activate[1] = 200000;
  EXPECT_EQ(pick_frfcfs(q, Dir::read, banks, 100000, 0), 1u);
  Queue same(128);
  for (unsigned i = 0; i < 3; i++) same.insert(entry(3, i, static_cast<std::uint16_t>(i), 1));
  EXPECT_EQ(pick_frfcfs(same, Dir::read, banks, 100000, 0), 2u);
  EXPECT_EQ(pick_frfcfs(Queue(128), Dir::read, banks, 100000, 0), 0u);
}

TEST(FillGap, TheFirstThatFitsIsPickedFromABankWithoutAnOlderEntry) {
  Queue q(128), ahead(128);
  q.insert(entry(3, 0, 0, 1));
  q.insert(entry(4, 1, 1, 1));
  q.insert(entry(5, 2, 2, 1));
  q.insert(entry(6, 3, 1, 2));
  q.insert(entry(7, 4, 0, 2));
  FakeBanks banks;
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 0u) << "nothing fits";
  banks.fits[0] = banks.fits[1] = banks.fits[2] = true;
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 1u);
  banks.fits[1] = false;
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 2u);
  ahead.insert(entry(4, 9, 2, 7));
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 0u) << "its bank is wanted before";
  banks.row[2] = 1;
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 2u) << "a hit opens no row";
  banks.fits[1] = true, banks.fits[2] = false, banks.row[1] = 2;
  EXPECT_EQ(fill_gap(q, ahead, 0, Dir::read, banks, 0), 1u);
}

class ControllerTest : public ::testing::Test {
 protected:
  Verdict offer(Controller *c, std::uint32_t core, Dir d = Dir::read, Ps now = 0,
                std::uint16_t bank = 0) {
    Arrival a;
    a.label = Label::of_core(core);
    a.dir = d;
    a.bytes = 64;
    const Verdict v = c->arrive(a);
    if (v.admission == Admission::accepted) c->enqueue(d, v.attribution, now, bank, row_++, 0);
    return v;
  }

  Controller make(ControllerOptions o = {}) {
    Controller c(o);
    for (unsigned i = 0; i < 4; i++) {
      c.registers().write(mmio::kPidCore + 8 * i, 100 + i);
      c.registers().write(mmio::kVtimeCore + 8 * i, 10 + i);
    }
    return c;
  }

  const Ps turn_[2] = {0, 0};
  FakeBanks banks_;
  std::uint32_t row_ = 1;
};

TEST_F(ControllerTest, TrafficCountsOnAcceptanceOnly) {
  Controller c = make();
  unsigned accepted = 0;
  for (int i = 0; i < 300; i++) accepted += offer(&c, 1).admission == Admission::accepted;
  EXPECT_EQ(accepted, 116u);
  EXPECT_EQ(c.registers().traffic(101), 116u * 64);
}

TEST_F(ControllerTest, VirtualTimeIsLatchedAtArrival) {
  Controller c = make();
  offer(&c, 1);
  c.registers().write(mmio::kVtimeCore + 8, 99);
  offer(&c, 2);
  EXPECT_EQ(c.queue(Dir::read).head().vtime, 11u);
  offer(&c, 1);
  EXPECT_EQ(c.queue(Dir::read).at(2).vtime, 99u);
}

TEST_F(ControllerTest, TheBaselineIgnoresVirtualTime) {
  ControllerOptions o;
  o.policy = Policy::frfcfs;
  Controller c = make(o);
  for (int i = 0; i < 127; i++) EXPECT_EQ(offer(&c, 3).admission, Admission::accepted);
  EXPECT_EQ(offer(&c, 0).admission, Admission::accepted);
  EXPECT_EQ(offer(&c, 0).admission, Admission::full);
  EXPECT_EQ(c.queue(Dir::read).at(127).seq, 127u);
}

TEST_F(ControllerTest, ARefusedPacketGetsTheRoomThatThoseBehindItHold) {
  for (AdmissionRule rule : {AdmissionRule::thesis, AdmissionRule::share}) {
    ControllerOptions o;
    o.admission = rule;
    o.read_entries = 8;
    Controller c = make(o);
    for (int i = 0; i < 8; i++) offer(&c, 3, Dir::read, 0, 1);
    for (int i = 0; i < 3; i++) EXPECT_EQ(offer(&c, 0).admission, Admission::full);
    unsigned behind = 0;
    for (int i = 0; i < 4; i++) {
      const Choice now = c.choose(banks_, 0, 0, turn_);
      behind += c.queue(Dir::read).at(now.place).vtime == 13;
      c.serve(now);
      offer(&c, 0);
    }
    EXPECT_EQ(behind, rule == AdmissionRule::share ? 4u : 1u);
  }
}

TEST_F(ControllerTest, AnOwnerWithoutAVirtualTimeGetsNoMoreThanTheFirst) {
  // Cores 2 and 3 have no virtual time, as after a restart; core 1 is first.
  Controller c{ControllerOptions()};
  for (unsigned i = 0; i < 4; i++) c.registers().write(mmio::kPidCore + 8 * i, 100 + i);
  c.registers().write(mmio::kVtimeCore + 8, 5);
  unsigned served[4] = {};
  for (Ps t = 0; t < 1000; t++) {
    offer(&c, 1, Dir::read, t);
    offer(&c, 3, Dir::read, t);
    const Choice now = c.choose(banks_, t, 0, turn_);
    served[c.serve(now).pid - 100]++;
  }
  EXPECT_GE(served[1], 450u);
  EXPECT_LE(served[3], served[1]);
  EXPECT_GE(served[3], 100u) << "it waits for room behind the first";
}

TEST_F(ControllerTest, FillIsAnErrorWhereTheViewCannotTellWhatFits) {
  struct Plain : PlainView<Plain> {
    bool ready(const Entry &) const { return true; }
    bool row_hit(const Entry &) const { return false; }
    Ps column_at(const Entry &, Dir) const { return 0; }
    Ps activate_at(const Entry &) const { return 0; }
    Ps row_to_column() const { return 0; }
  };
  ControllerOptions o;
  o.fill = true;
  Controller c = make(o);
  offer(&c, 0);
  EXPECT_THROW(c.choose(Plain(), 0, 0, turn_), std::logic_error);
}

TEST_F(ControllerTest, AgingServesTheOldestAfterTheBound) {
  ControllerOptions o;
  o.aging = 1000;
  Controller c = make(o);
  offer(&c, 3, Dir::write, 0);
  offer(&c, 0, Dir::read, 500);
  Choice now = c.choose(banks_, 1000, 0, turn_);
  EXPECT_EQ(now.dir, Dir::read);
  EXPECT_FALSE(now.aged);
  now = c.choose(banks_, 1001, 0, turn_);
  EXPECT_EQ(now.dir, Dir::write);
  EXPECT_TRUE(now.aged);
  c.serve(now);
  now = c.choose(banks_, 1002, 0, turn_);
  EXPECT_EQ(now.dir, Dir::read);
  EXPECT_FALSE(now.aged);
}

TEST_F(ControllerTest, WithoutAgingOrBeforeABoundBeyondAllTimeALoserWaitsForEver) {
  for (const Ps aging : {Ps{0}, kNever, kNever - 1}) {
    ControllerOptions o;
    o.aging = aging;
    Controller c = make(o);
    offer(&c, 3, Dir::write, 0);
    for (Ps t = 0; t < 100000; t++) {
      offer(&c, 0, Dir::read, t);
      const Choice now = c.choose(banks_, t, 0, turn_);
      ASSERT_EQ(now.dir, Dir::read);
      c.serve(now);
    }
  }
}

TEST(OwedRoom, CountsAsTheLowestOfTheRefusedPackets) {
  ControllerOptions o;
  o.admission = AdmissionRule::share;
  o.read_entries = o.write_entries = 16;
  o.runs = {0, 0};
  Controller c(o);
  const VTime vtimes[] = {1, 20, 50, 100};
  for (std::uint32_t i = 0; i < 4; i++) {
    c.registers().write(mmio::kPidCore + 8 * i, 2 + i);
    c.registers().write(mmio::kVtimeCore + 8 * i, vtimes[i]);
  }
  const auto send = [&](std::uint32_t core, Dir d) {
    const Verdict v = c.arrive({Label::of_core(core), d, 64, 1, 0});
    if (v.admission == Admission::accepted) c.enqueue(d, v.attribution, 0, 0, 0, 0);
    return v.admission;
  };
  while (send(3, Dir::read) == Admission::accepted) continue;
  EXPECT_EQ(send(1, Dir::write), Admission::accepted);
  EXPECT_EQ(c.choose_direction(), Dir::write) << "nothing is owed yet";
  ASSERT_EQ(c.queue(Dir::read).size(), 16u);
  EXPECT_NE(send(0, Dir::read), Admission::accepted);
  EXPECT_NE(send(2, Dir::read), Admission::accepted);
  EXPECT_EQ(c.choose_direction(), Dir::read) << "the first packet's 1 is below the write's 20";
}

// The model sends no packet that this refuses, so a wrong answer would keep one waiting.
TEST(RefusesAll, RefusesEachPacketAsArriveDoes) {
  std::mt19937 random(1);
  unsigned refusals = 0;
  for (const Policy policy : {Policy::lvtf, Policy::frfcfs}) {
    ControllerOptions o;
    o.policy = policy;
    o.read_entries = 20;
    Controller c(o);
    for (unsigned step = 0; step < 20000; step++) {
      c.registers().write(mmio::kVtimeCore, 1 + random() % 8);
      const unsigned bursts = 1 + random() % 3, in_flight = random() % 3;
      const VTime lowest = 1 + random() % 8;
      const bool all = c.refuses_all(Dir::read, in_flight, bursts, lowest);
      const Arrival a = {Label::of_core(0), Dir::read, 64,
                         bursts + static_cast<unsigned>(random() % 2), in_flight};
      const Verdict v = c.arrive(a);
      if (all && v.attribution.vtime >= lowest) {
        refusals++;
        ASSERT_NE(v.admission, Admission::accepted) << step;
      }
      if (v.admission == Admission::accepted)
        for (unsigned i = 0; i < a.bursts; i++) c.enqueue(Dir::read, v.attribution, 0, 0, 0, 0);
      if (random() % 2 && !c.queue(Dir::read).empty()) c.serve({true, false, Dir::read, 0});
    }
  }
  EXPECT_GT(refusals, 1000u);
}

TEST(RefusesAll, TellsBySharesOfActiveOwnersOnly) {
  ControllerOptions o;
  o.admission = AdmissionRule::share;
  o.read_entries = 4;
  o.cores = 5;
  Controller c(o);
  for (std::uint32_t i = 0; i < o.cores; i++) {
    c.registers().write(mmio::kPidCore + 8 * i, 2 + i);
    c.registers().write(mmio::kVtimeCore + 8 * i, 1 + i);
  }
  EXPECT_FALSE(c.refuses_all(Dir::read, 0, 5, 1)) << "no owner came";
  Verdict v;
  for (std::uint32_t i = 0; i < o.cores; i++) {
    v = c.arrive({Label::of_core(i), Dir::read, 64, 1, 0});
    if (i == 0)
      for (unsigned n = 0; n < 4; n++) c.enqueue(Dir::read, v.attribution, 0, 0, 0, 0);
  }
  EXPECT_EQ(v.admission, Admission::full);
  EXPECT_TRUE(c.refuses_all(Dir::read, 0, 1, 5)) << "a fifth of four entries";
  EXPECT_FALSE(c.refuses_all(Dir::read, 0, 1, 4)) << "a refusal may double its claim";
  c.serve({true, false, Dir::read, 0});
  EXPECT_TRUE(c.refuses_all(Dir::read, 0, 1, 5)) << "the first claims the room that it left";
  for (unsigned n = 0; n < 3; n++) c.serve({true, false, Dir::read, 0});
  EXPECT_FALSE(c.refuses_all(Dir::read, 0, 1, 5)) << "an empty queue refuses nothing";
}

TEST(RefusesAll, RefusesEachPacketOfAnActiveOwnerAsArriveDoesByShares) {
  std::mt19937 random(1);
  ControllerOptions o;
  o.admission = AdmissionRule::share;
  o.read_entries = 20;
  o.cores = 40;
  Controller c(o);
  const auto came = [&](std::uint32_t core, unsigned bursts, unsigned in_flight) {
    const Verdict v = c.arrive({Label::of_core(core), Dir::read, 64, bursts, in_flight});
    if (v.admission == Admission::accepted)
      for (unsigned i = 0; i < bursts; i++) c.enqueue(Dir::read, v.attribution, 0, 0, 0, 0);
    return v.admission;
  };
  for (std::uint32_t i = 0; i < o.cores; i++) {
    c.registers().write(mmio::kPidCore + 8 * i, 2 + i);
    c.registers().write(mmio::kVtimeCore + 8 * i, 1 + i / 4);
    came(i, 1, 0);
  }
  unsigned refusals = 0;
  for (unsigned step = 0; step < 40000; step++) {
    const auto core = static_cast<std::uint32_t>(random() % o.cores);
    const unsigned bursts = 1 + random() % 3, in_flight = random() % 3;
    const bool all = c.refuses_all(Dir::read, in_flight, bursts, 1 + core / 4);
    const Admission a = came(core, bursts + static_cast<unsigned>(random() % 2), in_flight);
    if (all) {
      refusals++;
      ASSERT_NE(a, Admission::accepted) << step;
    }
    if (random() % 3 == 0 && !c.queue(Dir::read).empty()) c.serve({true, false, Dir::read, 0});
  }
  EXPECT_GT(refusals, 1000u);
}

}  // namespace
}  // namespace drfq
