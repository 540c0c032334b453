// SPDX-License-Identifier: GPL-2.0-only
// The charging rules, and whole runs through them.
#include "host/charging.hh"

#include "host/scenario_run.hh"

#include <gtest/gtest.h>

#include <cmath>

namespace drfq {
namespace {

/// Charged for an interval of traffic only, then one of CPU only.
double charged(Charging c, double delta_ns = 40e6) {
  LoopOptions o;
  o.charging = c;
  o.cpus = 4;
  o.bytes_per_ns = 4;
  o.delta_ns = delta_ns;
  Flow f;
  charge(&f, {0, 4e6}, o);  // 1 ms of the memory
  charge(&f, {4e6, 0}, o);  // 1 ms of the CPUs
  return f.start_ns() - kVirtualOriginNs;
}

TEST(Charging, MemorylessChargesTheSumOfMaxima) {
  EXPECT_DOUBLE_EQ(charged(Charging::memoryless), 2e6);
}
TEST(Charging, DovetailChargesTheMaximumOfSums) {
  EXPECT_DOUBLE_EQ(charged(Charging::dovetail), 1e6);
}

TEST(Charging, DeltaChargesBetweenMemorylessAndDovetail) {
  EXPECT_DOUBLE_EQ(charged(Charging::delta, 40e6), 1e6);
  EXPECT_DOUBLE_EQ(charged(Charging::delta, 0.4e6), 1.6e6);
  EXPECT_DOUBLE_EQ(charged(Charging::delta, 0), 2e6);
}

TEST(Charging, AWeightDividesTheCharge) {
  LoopOptions o;
  Flow f;
  f.weight = 2;
  charge(&f, {1e6, 8e6}, o);
  EXPECT_DOUBLE_EQ(f.start_ns() - kVirtualOriginNs, 1e6);
}

TEST(Loop, CapWakeHoldAndRegister) {
  LoopOptions o;
  o.hold_ns = 40e6;
  const double v = kVirtualOriginNs + 1e9;
  Flow f;
  wake(&f, v, o);
  EXPECT_DOUBLE_EQ(f.start_ns(), v - o.wake_ns);
  f.mem_ns = v + 41e6;
  EXPECT_TRUE(held(f, v, o));
  cap(&f, v, o);
  EXPECT_DOUBLE_EQ(f.start_ns(), v + 40e6);
  EXPECT_FALSE(held(f, v, o));
  o.hold_ns = 0;
  f.mem_ns = v + 1e12;
  EXPECT_FALSE(held(f, v, o)) << "no delayed wake-up asked for";
  f.cpu_ns = f.mem_ns = 4194304.0 * 7 + 4194303;
  EXPECT_EQ(register_value(f, o), 7u);
  EXPECT_DOUBLE_EQ(advance_system(5, 4), 5);
  EXPECT_DOUBLE_EQ(advance_system(5, 6), 6);
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
    a.traffic.base = std::uint64_t{i} << 30;
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
