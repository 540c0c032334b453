// SPDX-License-Identifier: GPL-2.0-only
// Every timing rule alone, and all of them together on random bursts.
#include "model/address.hh"
#include "model/dram.hh"
#include "model/presets.hh"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace drfq {
namespace {

Entry at(std::uint16_t bank, std::uint32_t row) {
  Entry e;
  e.bank = bank;
  e.row = row;
  return e;
}

class DramTest : public ::testing::Test {
 protected:
  Timing t_ = lpddr2_1066_x32();
  Dram dram_{t_};
  Dram::Burst issue(const Entry &e, Dir d, bool unwanted = false) {
    const Dram::Burst b = dram_.issue(e, d, 0);
    dram_.settle(e.bank, unwanted);
    return b;
  }
};

TEST_F(DramTest, AfterAMissTheSameRowHits) {
  dram_.refresh(0);
  const auto first = issue(at(0, 1), Dir::read);
  EXPECT_FALSE(first.row_hit);
  EXPECT_EQ(first.column, t_.rcd);
  EXPECT_EQ(first.data_end, t_.rcd + t_.cl + t_.burst);
  const auto second = issue(at(0, 1), Dir::read);
  EXPECT_TRUE(second.row_hit);
  EXPECT_EQ(second.column, t_.rcd + t_.burst);
}

TEST_F(DramTest, ConflictPaysRasAndPrecharge) {
  dram_.refresh(0);
  issue(at(0, 1), Dir::read);
  // RAS ends at 42 ns, later than RTP after the read.
  EXPECT_EQ(issue(at(0, 2), Dir::read).column, t_.ras + t_.rp + t_.rcd);
}

TEST_F(DramTest, APrechargeWaitsForTheWriteRecovery) {
  dram_.refresh(0);
  const auto w = issue(at(0, 1), Dir::write);
  EXPECT_EQ(issue(at(0, 2), Dir::read).column, w.data_end + t_.wr + t_.rp + t_.rcd);
}

TEST_F(DramTest, ATurnOfTheBusTakesItsTurnaroundTime) {
  dram_.refresh(0);
  const auto w = issue(at(0, 1), Dir::write);
  const auto r = issue(at(0, 1), Dir::read);
  EXPECT_EQ(r.column, w.data_end + t_.wtr);
  const auto w2 = issue(at(0, 1), Dir::write);
  // CL = CWL here, so the data gap is exactly tRTW.
  EXPECT_EQ(w2.column, r.column + t_.burst + t_.rtw);
}

TEST_F(DramTest, AFifthActivateWaitsForTheWindowOfFour) {
  dram_.refresh(0);
  for (std::uint16_t b = 0; b < 4; b++)
    EXPECT_EQ(issue(at(b, 1), Dir::read).column, b * t_.rrd + t_.rcd);
  // The fifth waits for the window of four.
  EXPECT_EQ(issue(at(4, 1), Dir::read).column, t_.faw + t_.rcd);
}

TEST_F(DramTest, PageClosesAfterSixteenAccesses) {
  dram_.refresh(0);
  for (int i = 0; i < 16; i++) issue(at(0, 1), Dir::read);
  EXPECT_FALSE(dram_.row_hit(at(0, 1)));
}

TEST_F(DramTest, AdaptivePageLooksAtTheQueue) {
  dram_.refresh(0);
  issue(at(0, 1), Dir::read, false);
  EXPECT_TRUE(dram_.row_hit(at(0, 1))) << "a hit is waiting, or nothing";
  issue(at(0, 1), Dir::read, true);
  EXPECT_FALSE(dram_.row_hit(at(0, 1))) << "only a conflict is waiting";
}

TEST_F(DramTest, RefreshClosesRowsAndBlocks) {
  dram_.refresh(0);
  issue(at(0, 1), Dir::read);
  dram_.refresh(t_.refi);
  EXPECT_FALSE(dram_.ready(at(0, 1)));
  EXPECT_FALSE(dram_.row_hit(at(0, 1)));
  EXPECT_EQ(dram_.available_at(), t_.refi + t_.rp + t_.rfc);
  dram_.refresh(dram_.available_at());
  EXPECT_TRUE(dram_.ready(at(0, 1)));
}

TEST_F(DramTest, LongIdleTimesAreSkippedButCounted) {
  dram_.refresh(t_.refi * 1000);
  EXPECT_EQ(dram_.refreshes(), 1000u);
}

TEST(Groups, ABurstOfTheSameGroupComesLater) {
  const Timing t = ddr4_2400();
  Dram dram(t);
  dram.refresh(0);
  for (std::uint16_t b : {0, 1, 4}) dram.issue(at(b, 1), Dir::read, 0);
  const auto first = dram.issue(at(0, 1), Dir::read, 0);
  const auto other_group = dram.issue(at(1, 1), Dir::read, 0);
  EXPECT_EQ(other_group.column, first.column + t.burst);
  const auto same_group = dram.issue(at(4, 1), Dir::read, 0);
  EXPECT_EQ(same_group.column, other_group.column + t.burst) << "its group rested meanwhile";
  EXPECT_EQ(dram.issue(at(0, 1), Dir::read, 0).column, same_group.column + t.ccd_l);
}

TEST(Address, EveryBurstHasItsOwnPlace) {
  Timing small = ddr4_2400();
  small.rows = 4;
  for (AddressMap map : {AddressMap::row_bank_column, AddressMap::row_bank_column_group}) {
    small.map = map;
    small.ranks = 2;
    const AddressDecoder d(small);
    std::map<std::pair<unsigned, unsigned>, unsigned> seen;
    const unsigned columns = small.row_bytes / small.burst_bytes;
    for (unsigned b = 0; b < columns * small.banks * small.ranks * small.rows; b++) {
      const Place p = d.decode(b);
      seen[{p.bank, p.row}]++;
    }
    EXPECT_EQ(seen.size(), small.banks * small.ranks * small.rows);
    for (const auto &s : seen) EXPECT_EQ(s.second, columns);
  }
}

/// Property: whatever is issued, the data bus carries one burst at a time.
class BusTest : public ::testing::TestWithParam<const char *> {};

TEST_P(BusTest, NeverCarriesTwoBurstsAndRestsBetweenRanks) {
  Timing t;
  ASSERT_TRUE(timing_by_name(GetParam(), &t));
  t.ranks = 2;
  ASSERT_EQ(check(t), "");
  std::mt19937 rng(7);
  Dram dram(t);
  Ps now = 0, bus_free = 0, last_end = 0;
  unsigned last_rank = 0;
  for (int i = 0; i < 200000; i++) {
    now += rng() % (2 * t.burst);
    dram.refresh(now);
    const Entry e = at(static_cast<std::uint16_t>(rng() % (t.banks * 2)), rng() % 2);
    if (!dram.ready(e)) continue;
    const Dir d = rng() % 4 == 0 ? Dir::write : Dir::read;
    const auto b = dram.issue(e, d, bus_free);
    bus_free = b.column + t.burst;
    dram.settle(e.bank, rng() % 4 == 0);
    const unsigned rank = e.bank / t.banks;
    const Ps pause = i != 0 && rank != last_rank ? t.cs : 0;
    ASSERT_GE(b.data_end - t.burst, last_end + pause) << "burst " << i;
    last_rank = rank;
    last_end = b.data_end;
    if (bus_free > now + 100000) now = bus_free - 100000;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BusTest,
                         ::testing::Values("lpddr2-1066-x32", "ddr4-2400", "ddr5-4800"));

}  // namespace
}  // namespace drfq
