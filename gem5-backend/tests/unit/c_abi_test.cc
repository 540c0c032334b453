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

TEST(CAbi, BadOptionsAreRefused) {
  drfq_mc_options o;
  for (int i = 0; i < 5; i++) {
    drfq_mc_defaults(&o);
    if (i == 0) o.policy = 2;
    if (i == 1) o.cores = 0;
    if (i == 2) o.read_entries = 257;
    if (i == 3) o.write_entries = 0;
    if (i == 4) o.reserved = 1;
    EXPECT_EQ(drfq_mc_new(&o), nullptr) << i;
  }
}

}  // namespace
