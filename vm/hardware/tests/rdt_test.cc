// SPDX-License-Identifier: GPL-2.0-only
#include "rdt.hh"

#include <gtest/gtest.h>

#include "hardware_model.hh"

namespace drfq::hardware {
namespace {

RdtConfig shape() {
  RdtConfig s;
  s.rmids = 4;
  s.l3_closes = 4;
  s.cbm_bits = 8;
  s.mba_closes = 3;
  return s;
}

class RdtTest : public ::testing::Test {
 protected:
  MsrResult get(std::uint32_t m) { return rdt.read(0, m, cache, &value); }
  MsrResult set(std::uint32_t m, std::uint64_t v) { return rdt.write(0, m, v); }

  Rdt rdt{shape(), 2, 16};
  SharedCache cache{{64 * 16 * kLineBytes, 16, 0}, 4};
  std::uint64_t value = 0;
};

TEST_F(RdtTest, EachCoreHasItsOwnClass) {
  EXPECT_EQ(rdt.write(1, msr::kPqrAssoc, std::uint64_t{2} << 32 | 3), MsrResult::handled);
  EXPECT_EQ(rdt.class_of(1).rmid, 3);
  EXPECT_EQ(rdt.class_of(1).clos, 2);
  EXPECT_EQ(rdt.class_of(0).rmid, 0);
  EXPECT_EQ(set(msr::kPqrAssoc, 4), MsrResult::fault) << "no such RMID";
  EXPECT_EQ(set(msr::kPqrAssoc, std::uint64_t{4} << 32), MsrResult::fault) << "no such class";
  EXPECT_EQ(get(msr::kPqrAssoc), MsrResult::handled);
  EXPECT_EQ(value, 0u);
}

TEST_F(RdtTest, AMaskMustBeContiguousAndSelectsWays) {
  EXPECT_EQ(rdt.ways(1), 0xffffu);
  EXPECT_EQ(set(msr::kL3Mask + 1, 0x0c), MsrResult::handled);
  EXPECT_EQ(rdt.ways(1), 0x00f0u) << "two ways per bit";
  for (std::uint64_t bad : {0x0ull, 0x5ull, 0x100ull, 0x180ull})
    EXPECT_EQ(set(msr::kL3Mask + 1, bad), MsrResult::fault) << bad;
  EXPECT_EQ(get(msr::kL3Mask + 1), MsrResult::handled);
  EXPECT_EQ(value, 0x0cu);
  EXPECT_EQ(get(msr::kL3Mask + 4), MsrResult::not_ours);
}

TEST_F(RdtTest, ADelayIsRoundedDownToAStep) {
  EXPECT_EQ(set(msr::kMbaDelay + 2, 45), MsrResult::handled);
  EXPECT_EQ(get(msr::kMbaDelay + 2), MsrResult::handled);
  EXPECT_EQ(value, 40u);
  EXPECT_EQ(set(msr::kMbaDelay + 2, 50), MsrResult::handled);
  EXPECT_DOUBLE_EQ(rdt.throttle_factor(2), 1.0) << "half the rate takes twice the time";
  EXPECT_EQ(set(msr::kMbaDelay + 2, 91), MsrResult::fault);
  EXPECT_EQ(set(msr::kMbaDelay + 3, 10), MsrResult::not_ours);
}

TEST_F(RdtTest, CountersWrapAtTheirWidthAndReportErrors) {
  SharedCache::Victim v;
  for (Line l = 0; l < 5; l++) cache.fill(l, 2, 0xffff, &v);
  for (int i = 0; i < (1 << 24) + 7; i++) rdt.count_line(2);
  const auto read = [this](std::uint64_t event, std::uint64_t rmid) {
    EXPECT_EQ(set(msr::kQmEvtsel, rmid << 32 | event), MsrResult::handled);
    EXPECT_EQ(get(msr::kQmCtr), MsrResult::handled);
    return value;
  };
  EXPECT_EQ(read(1, 2), 5u);
  EXPECT_EQ(read(2, 2), 7u) << "wraps at 24 bits";
  EXPECT_EQ(read(3, 2), 7u);
  EXPECT_EQ(read(2, 1), 0u);
  EXPECT_EQ(read(4, 2), std::uint64_t{1} << 63) << "no such event";
  EXPECT_EQ(read(2, 4), std::uint64_t{1} << 63) << "no such RMID";
  EXPECT_EQ(set(msr::kQmCtr, 0), MsrResult::fault);
  EXPECT_EQ(set(msr::kQmEvtsel, 1 << 8), MsrResult::fault) << "reserved";
}

TEST(Rdt, CountersAreScaledAndMayBeWider) {
  RdtConfig s = shape();
  s.upscale = 4096;
  s.counter_bits = 32;
  Rdt rdt(s, 1, 16);
  SharedCache cache({64 * 16 * kLineBytes, 16, 0}, 4);
  for (int i = 0; i < (1 << 24) + 64; i++) rdt.count_line(0);
  std::uint64_t value = 0;
  rdt.write(0, msr::kQmEvtsel, 2);
  rdt.read(0, msr::kQmCtr, cache, &value);
  EXPECT_EQ(value, ((1u << 24) + 64) / 64);
}

TEST(Rdt, CountersMayStartJustBelowTheirWrap) {
  RdtConfig s = shape();
  s.counter_start = (1 << 24) - 2;
  Rdt rdt(s, 1, 16);
  SharedCache cache({64 * 16 * kLineBytes, 16, 0}, 4);
  std::uint64_t value = 0;
  rdt.write(0, msr::kQmEvtsel, 2);
  rdt.read(0, msr::kQmCtr, cache, &value);
  EXPECT_EQ(value, (1u << 24) - 2);
  for (int i = 0; i < 5; i++) rdt.count_line(0);
  rdt.read(0, msr::kQmCtr, cache, &value);
  EXPECT_EQ(value, 3u);
  rdt.write(0, msr::kQmEvtsel, 1);
  rdt.read(0, msr::kQmCtr, cache, &value);
  EXPECT_EQ(value, 0u) << "occupancy does not start there";
}

TEST(Rdt, MsrsOfAbsentFeaturesAreNotHandled) {
  RdtConfig s;
  Rdt none(s, 1, 8);
  SharedCache cache({64 * 8 * kLineBytes, 8, 0}, 0);
  std::uint64_t value = 0;
  for (std::uint32_t m :
       {msr::kPqrAssoc, msr::kQmEvtsel, msr::kQmCtr, msr::kL3Mask, msr::kMbaDelay}) {
    EXPECT_EQ(none.read(0, m, cache, &value), MsrResult::not_ours);
    EXPECT_EQ(none.write(0, m, 0), MsrResult::not_ours);
  }
}

TEST(RateShare, FallsMonotonicallyAndStaysAboveZero) {
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::linear, 0), 1);
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::linear, 90), 0.1);
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::mt2, 40), 1) << "no effect at level 60";
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::mt2, 90), 28.0 / 102);
  for (unsigned delay : {6, 10, 20, 35})
    EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::plateau, delay), 0.9) << delay;
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::plateau, 40), 0.6);
  EXPECT_DOUBLE_EQ(rate_share(ThrottleCurve::plateau, 0), 1);
  for (ThrottleCurve t : {ThrottleCurve::linear, ThrottleCurve::mt2, ThrottleCurve::plateau})
    for (unsigned d = 1; d <= 99; d++) {
      EXPECT_LE(rate_share(t, d), rate_share(t, d - 1));
      EXPECT_GT(rate_share(t, d), 0);
    }
}

}  // namespace
}  // namespace drfq::hardware
