// SPDX-License-Identifier: GPL-2.0-only
#include "pmu.hh"

#include <gtest/gtest.h>

#include <random>

#include "hardware_model.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kOn = 1 << 22, kUsr = 1 << 16, kOs = 1 << 17;

class PmuTest : public ::testing::Test {
 protected:
  std::uint64_t get(std::uint32_t m) {
    std::uint64_t v = 0;
    EXPECT_EQ(pmu.read(m, now, &v), MsrResult::handled) << std::hex << m;
    return v;
  }
  void set(std::uint32_t m, std::uint64_t v) {
    EXPECT_EQ(pmu.write(m, now, v), MsrResult::handled) << std::hex << m;
  }
  void retire(unsigned ring, std::uint64_t n) { now.ring[ring][Quantity::insns] += n; }

  MachineDescription d = shipped("thesis");
  Pmu pmu{d};
  CountsByRing now;
};

TEST_F(PmuTest, AnEnabledCounterCountsItsRings) {
  set(msr::kPerfevtsel, 0xC0 | kUsr | kOn);
  set(msr::kPerfevtsel + 1, 0xC0 | kUsr | kOs | kOn);
  set(msr::kGlobalCtrl, 0);
  retire(1, 10);
  EXPECT_EQ(get(msr::kPmc), 0u) << "disabled in IA32_PERF_GLOBAL_CTRL";
  set(msr::kGlobalCtrl, 3);
  retire(1, 100);
  retire(0, 1000);
  EXPECT_EQ(get(msr::kPmc), 100u);
  EXPECT_EQ(get(msr::kPmc + 1), 1100u);
  set(msr::kPerfevtsel, 0xC0 | kUsr);
  retire(1, 5);
  EXPECT_EQ(get(msr::kPmc), 100u) << "stopped";
  EXPECT_EQ(get(msr::kPmc + 1), 1105u);
}

TEST_F(PmuTest, AResetEnablesTheProgrammableCountersInTheGlobalControl) {
  EXPECT_EQ(get(msr::kGlobalCtrl), (1u << d.pmu.counters) - 1);
  set(msr::kFixedCtrCtrl, 3);
  set(msr::kPerfevtsel, 0xC0 | kUsr | kOn);
  retire(1, 10);
  EXPECT_EQ(get(msr::kPmc), 10u);
  EXPECT_EQ(get(msr::kFixedCtr), 0u);
}

TEST_F(PmuTest, AWriteOfPmcIsSignExtendedAndOfFullPmcIsNot) {
  set(msr::kPmc, 0x80000001);
  EXPECT_EQ(get(msr::kPmc), 0xffff80000001u);
  set(msr::kFullPmc, 0x80000001);
  EXPECT_EQ(get(msr::kPmc), 0x80000001u);
  EXPECT_EQ(pmu.write(msr::kFullPmc, now, std::uint64_t{1} << 48), MsrResult::fault);
}

TEST_F(PmuTest, AnOverflowSetsItsStatusBitUntilCleared) {
  set(msr::kGlobalCtrl, 1 | std::uint64_t{1} << 32);
  set(msr::kFixedCtrCtrl, 3);
  set(msr::kPerfevtsel, 0xC0 | kUsr | kOn);
  set(msr::kFullPmc, (std::uint64_t{1} << 48) - 5);
  set(msr::kFixedCtr, (std::uint64_t{1} << 48) - 6);
  retire(1, 5);
  EXPECT_EQ(get(msr::kGlobalStatus), 1u);
  EXPECT_EQ(get(msr::kPmc), 0u);
  retire(0, 1);
  EXPECT_EQ(get(msr::kGlobalStatus), 1 | std::uint64_t{1} << 32);
  set(msr::kGlobalOvfCtrl, 1);
  EXPECT_EQ(get(msr::kGlobalStatus), std::uint64_t{1} << 32);
  EXPECT_EQ(pmu.write(msr::kGlobalStatus, now, 0), MsrResult::fault);
}

TEST_F(PmuTest, RdpmcReadsExistingCountersOnly) {
  set(msr::kGlobalCtrl, std::uint64_t{1} << 32);
  set(msr::kFixedCtrCtrl, 2);
  retire(1, 77);
  std::uint64_t v = 0;
  EXPECT_TRUE(pmu.rdpmc(1u << 30, now, &v));
  EXPECT_EQ(v, 77u);
  EXPECT_FALSE(pmu.rdpmc(d.pmu.counters, now, &v));
  EXPECT_FALSE(pmu.rdpmc(1u << 30 | d.pmu.fixed, now, &v));
}

TEST_F(PmuTest, ReservedBitsFaultAndAbsentCountersAreNotHandled) {
  std::uint64_t v = 0;
  EXPECT_EQ(pmu.write(msr::kPerfevtsel, now, std::uint64_t{1} << 32), MsrResult::fault);
  EXPECT_EQ(pmu.write(msr::kFixedCtrCtrl, now, 1 << 12), MsrResult::fault);
  EXPECT_EQ(pmu.write(msr::kGlobalCtrl, now, std::uint64_t{1} << 35), MsrResult::fault);
  EXPECT_EQ(pmu.read(msr::kPmc + d.pmu.counters, now, &v), MsrResult::not_ours);
  EXPECT_EQ(pmu.write(msr::kPerfevtsel + d.pmu.counters, now, 0), MsrResult::not_ours);
  MachineDescription none = d;
  none.pmu = PmuConfig();
  EXPECT_EQ(Pmu(none).read(msr::kPerfCapabilities, now, &v), MsrResult::not_ours);
}

TEST_F(PmuTest, OffcoreResponsesSelectRequestsAndOutcomes) {
  CoreCounts &c = now.ring[1];
  c[Quantity::read_hit] = 1;
  c[Quantity::read_miss] = 2;
  c[Quantity::rfo_hit] = 4;
  c[Quantity::rfo_miss] = 8;
  c[Quantity::prefetch_miss] = 16;
  c[Quantity::write_back] = 32;
  const std::uint64_t any = 1 << 16, no_snoop = std::uint64_t{1} << 31;
  const std::uint64_t l3_hit = 0xf << 18 | no_snoop, l3_miss = 1 << 22 | no_snoop;
  EXPECT_EQ(pmu.event(0x01B7, 1 | any, c), 3u);
  EXPECT_EQ(pmu.event(0x01B7, 1 | l3_hit, c), 1u);
  EXPECT_EQ(pmu.event(0x01B7, 3 | l3_miss, c), 10u);
  c[Quantity::prefetch_own] = 6;
  c[Quantity::streaming_store] = 64;
  EXPECT_EQ(pmu.event(0x01B7, 1 << 4 | l3_miss, c), 10u);
  EXPECT_EQ(pmu.event(0x01B7, 1 << 5 | l3_miss, c), 6u);
  EXPECT_EQ(pmu.event(0x01B7, 0x7F7 | l3_miss, c), 26u) << "all reads";
  EXPECT_EQ(pmu.event(0x01BB, 0x122 | l3_miss, c), 14u) << "all that stores asked for";
  EXPECT_EQ(pmu.event(0x01BB, 1 << 11 | l3_miss, c), 64u);
  EXPECT_EQ(pmu.event(0x01BB, 1 << 3 | any, c), 32u);
  EXPECT_EQ(pmu.event(0x412E, 0, c), 26u);
  EXPECT_EQ(pmu.event(0x4F2E, 0, c), 31u);
  EXPECT_EQ(pmu.event(0x1234, 0, c), 0u) << "an unknown event";
}

TEST_F(PmuTest, TheBitOfAMissInLocalMemoryDependsOnTheModel) {
  CoreCounts &c = now.ring[1];
  c[Quantity::read_hit] = 1;
  c[Quantity::read_miss] = 2;
  const std::uint64_t no_snoop = std::uint64_t{1} << 31;
  const std::uint64_t of_haswell = 1 << 22, later = 1 << 26, remote = std::uint64_t{0xf} << 27;
  struct Case {
    unsigned model;
    std::uint64_t local;
  };
  for (const Case &k : {Case{0x3c, of_haswell}, Case{0x3f, of_haswell}, Case{0x45, of_haswell},
                        Case{0x46, of_haswell}, Case{0x4f, later}, Case{0x55, later},
                        Case{0x7d, later}, Case{0, later}}) {
    d.cpu_model = k.model;
    const Pmu p(d);
    const std::uint64_t other = of_haswell ^ later ^ k.local;
    EXPECT_EQ(p.event(0x01B7, 1 | k.local | no_snoop, c), 2u) << std::hex << k.model;
    EXPECT_EQ(p.event(0x01B7, 1 | other | no_snoop, c), 0u) << std::hex << k.model;
    EXPECT_EQ(p.event(0x01B7, 1 | remote | no_snoop, c), 0u) << "another socket's memory";
    // Those of userspace/sense/src/traffic_events.rs have all bits that the model documents.
    for (const std::uint64_t l3_miss : {0x3fffc00000ull, 0x3fbfc00000ull})
      EXPECT_EQ(p.event(0x01B7, 1 | l3_miss, c), 2u) << std::hex << k.model;
  }
}

TEST_F(PmuTest, AnOffcoreResponseNeedsASnoopThatTheMachineGives) {
  CoreCounts &c = now.ring[1];
  c[Quantity::read_hit] = 1;
  c[Quantity::read_miss] = 2;
  const std::uint64_t sources = 1 << 22 | 0xf << 18;
  EXPECT_EQ(pmu.event(0x01B7, 1 | sources, c), 0u) << "no bit of a snoop";
  for (unsigned bit = 31; bit <= 37; bit++) {
    // None, not needed, and missed; not a hit in another core's cache, nor a device's memory.
    const std::uint64_t n = bit <= 33 ? 3 : 0;
    EXPECT_EQ(pmu.event(0x01B7, 1 | sources | std::uint64_t{1} << bit, c), n) << bit;
  }
  EXPECT_EQ(pmu.event(0x01B7, 1 | 1 << 16 | std::uint64_t{1} << 36, c), 3u) << "any response";
}

/// The kernel starts and stops counters at any time when it multiplexes events.
TEST_F(PmuTest, StopsAndStartsLoseNoCounts) {
  std::mt19937 rng(3);
  set(msr::kGlobalCtrl, 0xf);
  std::uint64_t want = 0;
  bool on = false;
  for (int i = 0; i < 2000; i++) {
    if (rng() % 3 == 0) {
      on = !on;
      set(msr::kPerfevtsel, 0xC0 | kUsr | (on ? kOn : 0));
    }
    const std::uint64_t n = rng() % 1000;
    retire(1, n);
    retire(0, rng() % 1000);
    if (on) want += n;
    if (rng() % 5 == 0) {
      ASSERT_EQ(get(msr::kPmc), want);
    }
  }
}

}  // namespace
}  // namespace drfq::hardware
