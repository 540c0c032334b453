// SPDX-License-Identifier: GPL-2.0-only
#include "core/drfq_mc.h"
#include "core/registers.hh"

#include <gtest/gtest.h>

namespace {

bool always(void *, uint16_t) { return true; }
bool hit(void *open_row, uint16_t, uint32_t row) {
  return *static_cast<uint32_t *>(open_row) == row;
}

TEST(CAbi, APacketIsCountedQueuedAndChosen) {
  drfq_mc_options o;
  drfq_mc_defaults(&o);
  drfq_mc *mc = drfq_mc_new(&o);
  ASSERT_NE(mc, nullptr);
  EXPECT_EQ(drfq_mc_write(mc, drfq::mmio::kPidCore, 50), 0);
  EXPECT_EQ(drfq_mc_write(mc, drfq::mmio::kVtimeCore, 4), 0);
  EXPECT_EQ(drfq_mc_write(mc, drfq::mmio::kPidCore, 1 << 20), 3);

  const drfq_mc_packet packet = {0, 0, 64, 2, 0, false};
  drfq_mc_attribution attribution;
  ASSERT_EQ(drfq_mc_arrive(mc, &packet, &attribution), 0);
  EXPECT_EQ(attribution.pid, 50u);
  EXPECT_EQ(attribution.vtime, 4u);
  EXPECT_TRUE(drfq_mc_enqueue(mc, false, &attribution, 10, 0, 7, 1));
  EXPECT_TRUE(drfq_mc_enqueue(mc, false, &attribution, 10, 0, 9, 2));
  EXPECT_FALSE(drfq_mc_enqueue(mc, false, &attribution, 10, 256, 9, 2));
  EXPECT_EQ(drfq_mc_waiting(mc, false), 2u);

  uint32_t open_row = 9;
  drfq_mc_view view = {};
  view.context = &open_row;
  view.ready = always;
  view.row_hit = hit;
  drfq_mc_burst burst;
  ASSERT_TRUE(drfq_mc_choose(mc, &view, 20, 0, &burst));
  EXPECT_EQ(burst.handle, 2);
  EXPECT_EQ(burst.vtime, 4u);
  ASSERT_TRUE(drfq_mc_choose(mc, &view, 20, 0, &burst));
  EXPECT_EQ(burst.handle, 1);
  EXPECT_FALSE(drfq_mc_choose(mc, &view, 20, 0, &burst));

  uint64_t bytes = 0;
  EXPECT_EQ(drfq_mc_peek(mc, drfq::mmio::kTraffic + 50 * 8, &bytes), 0);
  EXPECT_EQ(bytes, 64u);
  EXPECT_EQ(drfq_mc_read(mc, drfq::mmio::kTraffic + 50 * 8, &bytes), 0);
  EXPECT_EQ(bytes, 64u);
  EXPECT_EQ(drfq_mc_read(mc, drfq::mmio::kTraffic + 50 * 8, &bytes), 0);
  EXPECT_EQ(bytes, 0u);
  drfq_mc_free(mc);
}

class Checked : public ::testing::TestWithParam<uint32_t> {
 protected:
  Checked() {
    drfq_mc_options o;
    drfq_mc_defaults(&o);
    o.policy = GetParam();
    mc = drfq_mc_new(&o);
  }
  ~Checked() override { drfq_mc_free(mc); }
  drfq_mc *mc;
  drfq_mc_attribution attribution = {};
};

TEST_P(Checked, APacketOfTooManyBurstsIsRefused) {
  for (uint32_t bursts : {257u, 0x80000000u, UINT32_MAX}) {
    const drfq_mc_packet packet = {0, 0, 64, bursts, 0, false};
    EXPECT_EQ(drfq_mc_arrive(mc, &packet, &attribution), DRFQ_MC_BAD_PACKET) << bursts;
  }
  const drfq_mc_packet flying = {0, 0, 64, 2, UINT32_MAX, false};
  EXPECT_EQ(drfq_mc_arrive(mc, &flying, &attribution), 1);
}

TEST_P(Checked, APidOutsideTheRegistersIsNotQueued) {
  attribution.pid = drfq::kPids;
  EXPECT_FALSE(drfq_mc_enqueue(mc, false, &attribution, 0, 0, 0, 0));
  attribution.pid = drfq::kPids - 1;
  EXPECT_TRUE(drfq_mc_enqueue(mc, false, &attribution, 0, 0, 0, 0));
}

TEST_P(Checked, AViewWithoutAFunctionThatThePolicyCallsChoosesNothing) {
  ASSERT_TRUE(drfq_mc_enqueue(mc, false, &attribution, 0, 0, 0, 0));
  drfq_mc_view view = {};
  drfq_mc_burst burst;
  EXPECT_FALSE(drfq_mc_choose(mc, &view, 0, 0, &burst));
  uint32_t open_row = 0;
  view.context = &open_row;
  view.ready = always;
  view.row_hit = hit;
  EXPECT_EQ(drfq_mc_choose(mc, &view, 0, 0, &burst), GetParam() == 0);
}

TEST_P(Checked, TimeThatGoesBackAgesNoBurst) {
  ASSERT_TRUE(drfq_mc_enqueue(mc, false, &attribution, 5000, 0, 0, 0));
  uint32_t open_row = 0;
  drfq_mc_view view = {};
  view.context = &open_row;
  view.ready = always;
  view.row_hit = hit;
  view.column_at = [](void *, uint16_t, bool) { return uint64_t{0}; };
  view.activate_at = [](void *, uint16_t) { return uint64_t{0}; };
  drfq_mc_burst burst;
  ASSERT_TRUE(drfq_mc_choose(mc, &view, 10, 0, &burst));
  EXPECT_FALSE(burst.aged);
}

INSTANTIATE_TEST_SUITE_P(Policies, Checked, ::testing::Values(0u, 1u));

TEST(CAbi, BadOptionsAreRefused) {
  EXPECT_EQ(drfq_mc_new(nullptr), nullptr);
  drfq_mc_options o;
  for (int i = 0; i < 5; i++) {
    drfq_mc_defaults(&o);
    if (i == 0) o.policy = 2;
    if (i == 1) o.cores = 0;
    if (i == 2) o.read_entries = 257;
    if (i == 3) o.write_entries = 0;
    if (i == 4) o.run_bursts = 257;
    EXPECT_EQ(drfq_mc_new(&o), nullptr) << i;
  }
}

}  // namespace
