// SPDX-License-Identifier: GPL-2.0-only
// The charging rules, and whole runs through them.
#include "host/charging.hh"

#include "host/scenario_run.hh"

#include <gtest/gtest.h>

#include <cmath>

namespace drfq {
namespace {

constexpr std::uint64_t kMs = 1000000;

/// S after an interval of traffic only, then one of CPU only.
std::uint64_t charged(Charging c, double delta_ns = 40e6) {
  LoopOptions o;
  o.charging = c;
  o.delta_ns = delta_ns;
  Charger charger(o, 1);
  Flow f = charger.flow(1);
  charger.charge(&f, {0, 4 * kMs, false});  // 1 ms of the memory
  charger.charge(&f, {4 * kMs, 0, false});  // 1 ms of the CPUs
  return drfq_start(&f) - DRFQ_V_ORIGIN_NS;
}

TEST(Charging, MemorylessChargesTheSumOfMaxima) {
  EXPECT_EQ(charged(Charging::memoryless), 2 * kMs);
}
TEST(Charging, DovetailChargesTheMaximumOfSums) { EXPECT_EQ(charged(Charging::dovetail), kMs); }

TEST(Charging, DeltaChargesBetweenMemorylessAndDovetail) {
  EXPECT_EQ(charged(Charging::delta, 40e6), kMs);
  EXPECT_EQ(charged(Charging::delta, 0.4e6), 1600000u);
}

TEST(Charging, TheMemoryAccountKnowsNoCpuTime) {
  LoopOptions o;
  o.shift = 0;
  Charger charger(o, 1);
  Flow f = charger.flow(2);
  charger.charge(&f, {4 * kMs, 0, false});
  EXPECT_EQ(charger.register_value(f), DRFQ_V_ORIGIN_NS);
  charger.charge(&f, {4 * kMs, 8 * kMs, false});
  EXPECT_EQ(charger.register_value(f) - DRFQ_V_ORIGIN_NS, kMs) << "2 ms of the memory, weight 2";
}

TEST(Charging, TheCapAppliesBeforeAnInterval) {
  LoopOptions o;
  o.charging = Charging::delta;
  Charger charger(o, 1);
  Flow f = charger.flow(1);
  charger.charge(&f, {0, 400 * kMs, false});
  EXPECT_EQ(drfq_start(&f) - DRFQ_V_ORIGIN_NS, 100 * kMs) << "paid in full";
  charger.charge(&f, {0, 4 * kMs, false});
  EXPECT_EQ(drfq_start(&f) - DRFQ_V_ORIGIN_NS, 41 * kMs);
}

TEST(Charging, OnlyADevicesDebtIsHeld) {
  LoopOptions o;
  o.charging = Charging::delta;
  o.hold_ns = 40e6;
  const LoopOptions without;
  Charger charger(o, 1);
  Flow f = charger.flow(1);
  charger.charge(&f, {400 * kMs, 0, false});
  EXPECT_FALSE(charger.held(f));
  charger.charge(&f, {0, 400 * kMs, true});
  EXPECT_TRUE(charger.held(f));
  EXPECT_FALSE(Charger(without, 1).held(f)) << "no delayed wake-up asked for";
}

Scenario pair(Charging c, double weight_b) {
  Scenario s;
  s.loop.charging = c;
  s.warmup_ns = 20e6;
  s.duration_ns = 150e6;
  for (std::uint32_t i = 0; i < 2; i++) {
    AgentSpec a;
    a.traffic.name = i ? "b" : "a";
    a.traffic.label = Label::of_core(i);
    a.traffic.base = std::uint64_t{i} << 26;
    a.traffic.outstanding_lines = 8;
    a.pid = 100 + i;
    a.weight = i ? weight_b : 1;
    s.agents.push_back(a);
  }
  return s;
}

TEST(Scenario, MemorylessBreaksWeightedSharesOfFastCoresAndDeltaDoesNot) {
  // The quantum of the registers is 4.2 ms of virtual time. A run of 150 ms is
  // therefore exact to a few percent at best.
  EXPECT_LT(run(pair(Charging::memoryless, 2)).at("ratio_error_percent"), -30);
  EXPECT_LT(std::fabs(run(pair(Charging::delta, 2)).at("ratio_error_percent")), 6);
}

TEST(Scenario, EqualWeightsSplitEvenlyAndTheSameAgain) {
  const Figures f = run(pair(Charging::delta, 1)), g = run(pair(Charging::delta, 1));
  EXPECT_LT(std::fabs(f.at("ratio_error_percent")), 1);
  EXPECT_EQ(f, g);
}

TEST(Scenario, AnAgentWithAFixedVirtualTimeIsOutsideTheLoop) {
  Scenario s = pair(Charging::memory, 1);
  s.agents[1].fixed = true;
  s.agents[1].vtime = 1;
  EXPECT_LT(run(s).at("a.share_percent"), 30) << "b is always first";
  s.agents[1].vtime = std::uint64_t{1} << 40;
  EXPECT_GT(run(s).at("a.share_percent"), 70) << "b is always last";
}

TEST(Scenario, TheAgingBoundLimitsTheWaitAndKeepsTheShares) {
  // Weights 1:8 with more lines than the queues hold: the first falls behind for whole quanta.
  // The loop's times are a quarter of the scheduler's, for more quanta in a run.
  Scenario s = pair(Charging::memory, 8);
  EXPECT_EQ(s.memory.controller.aging, kPsPerMs) << "the default";
  for (AgentSpec &a : s.agents) a.traffic.outstanding_lines = 64;
  s.loop.shift = 20;
  s.loop.update_ns = 250e3;
  s.duration_ns = 100e6;
  const Figures with = run(s);
  s.memory.controller.aging = 0;
  const Figures without = run(s);
  // Behind the bound, at most both queues are older; a row miss takes less than 100 ns each.
  const double bound_ns = 1e6 + 256 * 100;
  for (const char *wait : {"read_wait_max_ns", "write_wait_max_ns"}) {
    EXPECT_LE(with.at(wait), bound_ns) << wait;
    EXPECT_GT(without.at(wait), 2 * bound_ns) << wait;
  }
  const double total = without.at("total.bytes_per_ns");
  EXPECT_GT(with.at("total.bytes_per_ns"), 0.99 * total);
  // The register's quantum is 1.05 ms of memory time.
  const double quantum_percent = 100 * 1048576 * s.loop.bytes_per_ns / (total * s.duration_ns);
  EXPECT_NEAR(with.at("a.share_percent"), without.at("a.share_percent"), quantum_percent);
}

TEST(Scenario, ADeviceIsHeldOnlyWhileAProcessIsCharged) {
  Scenario s = pair(Charging::delta, 1);
  s.duration_ns = 30e6;
  AgentSpec &process = s.agents[0], &device = s.agents[1];
  process.traffic.kind = Kind::cpu;
  device.traffic.kind = Kind::dma;
  device.traffic.label = Label::of_substream(device.pid);
  const double alone = run(s).at("b.bytes_per_ns");
  s.loop.hold_ns = 1e6;
  EXPECT_LT(run(s).at("b.bytes_per_ns"), alone / 2) << "V moves by a quarter of the process' time";
  process.fixed = true;
  EXPECT_EQ(run(s).at("b.bytes_per_ns"), alone) << "outside the loop";
  process.fixed = process.traffic.enabled = false;
  EXPECT_EQ(run(s).at("b.bytes_per_ns"), alone) << "no process";
}

TEST(Scenario, TheLengthOfAWindowChangesTheStandardDeviationAlone) {
  Scenario s = pair(Charging::memory, 2);
  s.loop.shift = 0;
  s.duration_ns = 30e6;
  // A window of 0.1 ms ends while a daemon runs.
  s.daemon_ns = 250e3;
  s.daemon_percent = 20;
  for (const double update_ns : {1e6, 0.7e6}) {
    s.loop.update_ns = update_ns;
    s.window_ns = 10e6;
    Figures of_10_ms = run(s);
    s.window_ns = 0.1e6;
    Figures of_100_us = run(s);
    EXPECT_NE(of_10_ms.at("share_stdev_percent"), of_100_us.at("share_stdev_percent"));
    of_10_ms.erase("share_stdev_percent");
    of_100_us.erase("share_stdev_percent");
    EXPECT_EQ(of_10_ms, of_100_us) << "updates every " << update_ns << " ns";
  }
}

TEST(Scenario, TheShiftSmoothsDifferencesThatMeanNothing) {
  Scenario s = pair(Charging::delta, 1);
  s.window_ns = 1e6;
  s.duration_ns = 60e6;
  s.daemon_ns = 200e3;
  s.daemon_percent = 5;
  const double smooth = run(s).at("share_stdev_percent");
  s.loop.shift = 0;
  EXPECT_GT(run(s).at("share_stdev_percent"), 2 * smooth);
}

}  // namespace
}  // namespace drfq
