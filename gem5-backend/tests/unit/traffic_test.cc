// SPDX-License-Identifier: GPL-2.0-only
#include "model/traffic.hh"

#include <gtest/gtest.h>

#include <random>

namespace drfq {
namespace {

AgentOptions agent(Kind kind, unsigned core, unsigned outstanding_lines) {
  AgentOptions o;
  o.kind = kind;
  o.label = Label::of_core(core);
  o.outstanding_lines = outstanding_lines;
  o.base = core * footprint(o);
  return o;
}

double bytes_per_ns(const Traffic &t, std::size_t i, Ps over) {
  return static_cast<double>(t.counters(i).bytes_total()) * 1e3 / static_cast<double>(over);
}

TEST(Traffic, TheSameSeedGivesTheSameTraffic) {
  std::uint64_t bytes[2];
  for (auto &b : bytes) {
    Traffic t{MemoryOptions()};
    t.add(agent(Kind::copy, 0, 8));
    t.add(agent(Kind::chase, 1, 4));
    t.run_until(5 * kPsPerMs);
    b = t.counters(0).bytes_total() * 31 + t.counters(1).bytes_total();
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST(Traffic, SteppingDoesNotChangeTheResult) {
  Traffic whole{MemoryOptions()}, steps{MemoryOptions()};
  for (Traffic *t : {&whole, &steps}) {
    t->add(agent(Kind::copy, 0, 8));
    t->add(agent(Kind::copy, 1, 32));
  }
  whole.run_until(kPsPerMs);
  for (Ps t = 0; t <= kPsPerMs; t += 777) steps.run_until(t);
  steps.run_until(kPsPerMs);
  EXPECT_EQ(whole.counters(0).bytes_total(), steps.counters(0).bytes_total());
  EXPECT_EQ(whole.counters(1).bytes_total(), steps.counters(1).bytes_total());
  EXPECT_EQ(whole.memory().stats().turnarounds, steps.memory().stats().turnarounds);
}

TEST(Traffic, NeverMoreThanTheBusCarries) {
  for (Kind kind : {Kind::copy, Kind::stream, Kind::chase, Kind::dma})
    for (Policy policy : {Policy::lvtf, Policy::frfcfs}) {
      MemoryOptions o;
      o.controller.policy = policy;
      Traffic t(o);
      for (unsigned i = 0; i < 3; i++) t.add(agent(kind, i, 32));
      t.run_until(kPsPerMs);
      double total = 0;
      for (unsigned i = 0; i < 3; i++) total += bytes_per_ns(t, i, kPsPerMs);
      EXPECT_LE(total, o.timing.bytes_per_ns() * 1.01) << static_cast<int>(kind);
      EXPECT_GT(total, 1.0) << static_cast<int>(kind);
    }
}

TEST(Traffic, CopyReadsTwiceWhatItWrites) {
  Traffic t{MemoryOptions()};
  t.add(agent(Kind::copy, 0, 8));
  t.run_until(kPsPerMs);
  const auto &c = t.counters(0);
  EXPECT_NEAR(static_cast<double>(c.bytes[0]) / static_cast<double>(c.bytes[1]), 2.0, 0.01);
}

TEST(Traffic, ACpuAgentSendsNothingAndAPhaseAgentPauses) {
  Traffic t{MemoryOptions()};
  t.add(agent(Kind::cpu, 0, 8));
  AgentOptions p = agent(Kind::phase, 1, 8);
  p.period = kPsPerMs;
  t.add(p);
  t.run_until(kPsPerMs - 1);
  const auto first = t.counters(1).bytes_total();
  EXPECT_GT(first, 0u);
  t.run_until(2 * kPsPerMs - 1);
  EXPECT_EQ(t.counters(1).bytes_total(), first);
  t.run_until(3 * kPsPerMs);
  EXPECT_GT(t.counters(1).bytes_total(), first);
  EXPECT_EQ(t.counters(0).bytes_total(), 0u);
}

TEST(Traffic, AnAgentKeepsItsRate) {
  Traffic t{MemoryOptions()};
  AgentOptions o = agent(Kind::stream, 0, 8);
  o.bytes_per_s = 500000000;
  t.add(o);
  t.run_until(20 * kPsPerMs);
  EXPECT_NEAR(bytes_per_ns(t, 0, 20 * kPsPerMs), 0.5, 0.005);
}

TEST(Traffic, DmaPausesAfterEachBlock) {
  Traffic t{MemoryOptions()};
  AgentOptions o = agent(Kind::dma, 0, 32);
  o.block_bytes = 4096;
  o.pause = 100 * kPsPerUs;
  t.add(o);
  t.run_until(1000 * kPsPerUs);
  EXPECT_EQ(t.counters(0).bytes[1] % 4096, 0u);
  EXPECT_LE(t.counters(0).bytes[1], 10u * 4096);
  EXPECT_GE(t.counters(0).bytes[1], 9u * 4096);
}

TEST(Traffic, LowerVirtualTimeGetsWhatItGetsAlone) {
  // A little slower than alone: the loser's bursts cannot be taken back.
  double alone = 0, together = 0;
  for (bool other : {false, true}) {
    Traffic t{MemoryOptions()};
    for (unsigned i = 0; i < 2; i++) {
      t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
      t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i + 1);
    }
    t.add(agent(Kind::copy, 0, 8));
    if (other) t.add(agent(Kind::copy, 1, 8));
    t.run_until(5 * kPsPerMs);
    (other ? together : alone) = bytes_per_ns(t, 0, 5 * kPsPerMs);
  }
  EXPECT_GT(together, 0.9 * alone);
}

TEST(Traffic, FillGivesGapsToTheHigherVirtualTimeAtNoCostToTheLower) {
  double first[2], second[2];
  for (bool fill : {false, true}) {
    MemoryOptions o;
    o.controller.prepare = true;
    o.controller.fill = fill;
    Traffic t(o);
    for (unsigned i = 0; i < 2; i++) {
      t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
      t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i + 1);
    }
    AgentOptions stream = agent(Kind::stream, 0, 4);
    stream.arrays = 19;
    stream.write_percent = 44;
    t.add(stream);
    t.add(agent(Kind::dma, 1, 32));
    t.run_until(2 * kPsPerMs);
    first[fill] = bytes_per_ns(t, 0, 2 * kPsPerMs);
    second[fill] = bytes_per_ns(t, 1, 2 * kPsPerMs);
  }
  EXPECT_GT(first[true], 0.99 * first[false]);
  EXPECT_GT(second[true], 10 * second[false]);
}

TEST(Traffic, BatchLeavesALoneStreamItsBandwidth) {
  for (unsigned arrays : {3u, 7u, 19u})
    for (unsigned lines : {1u, 4u, 16u}) {
      AgentOptions stream = agent(Kind::stream, 0, lines);
      stream.arrays = arrays;
      stream.write_percent = arrays == 3 ? 20 : arrays == 7 ? 37 : 44;
      double with[3];
      for (unsigned i = 0; i < 3; i++) {
        MemoryOptions o;
        o.controller.policy = i == 0 ? Policy::frfcfs : Policy::lvtf;
        o.controller.admission = AdmissionRule::share;
        o.controller.prepare = true;
        o.controller.batch = i == 2;
        o.controller.runs.tie = 32;
        Traffic t(o);
        t.add(stream);
        t.run_until(2 * kPsPerMs);
        with[i] = bytes_per_ns(t, 0, 2 * kPsPerMs);
      }
      EXPECT_GT(with[2], 0.93 * with[0]) << arrays << " arrays, " << lines << " lines";
      if (arrays == 19 && lines == 4) {
        EXPECT_LT(with[1], 0.8 * with[0]) << "without it";
      }
    }
}

/// Bandwidth of an agent of the lowest virtual time, alone or beside one that clogs the queues.
double beside(const ControllerOptions &rules, unsigned entries, AgentOptions first,
              const AgentOptions *other) {
  MemoryOptions o;
  o.controller = rules;
  o.controller.prepare = true;
  o.controller.read_entries = o.controller.write_entries = entries;
  Traffic t(o);
  for (unsigned i = 0; i < 2; i++) {
    t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
    t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i + 1);
  }
  t.add(first);
  if (other != nullptr) t.add(*other);
  t.run_until(100 * kPsPerUs);
  t.clear_stats();
  t.run_until(600 * kPsPerUs);
  return bytes_per_ns(t, 0, 500 * kPsPerUs);
}

TEST(Traffic, AdmissionBySharesKeepsTheWinnersBandwidthBesideAClog) {
  ControllerOptions rules[5];
  for (unsigned i = 1; i < 5; i++) rules[i].admission = AdmissionRule::share;
  for (unsigned i = 2; i < 5; i++) rules[i].runs.any = 8;
  rules[3].fill = rules[4].fill = true;
  rules[4].batch = true;
  rules[4].runs.tie = 32;
  double worst[5] = {1, 1, 1, 1, 1};
  const auto kind = [](unsigned core, unsigned which, unsigned lines) {
    AgentOptions o = agent(which == 0 ? Kind::copy : Kind::stream, core, lines);
    o.base = core * (64u << 20);
    o.write_percent = which == 2 ? 100 : 0;
    o.seed = core + 1;
    return o;
  };
  for (unsigned entries : {32u, 64u, 128u, 256u})
    for (unsigned lines : {4u, 8u, 32u})
      for (unsigned which = 0; which < 3; which++) {
        const AgentOptions winner = kind(0, which, lines);
        const double alone = beside(rules[0], entries, winner, nullptr);
        for (unsigned other = 0; other < 3; other++) {
          const AgentOptions clog = kind(1, other, 128);
          for (unsigned i = 0; i < 5; i++)
            worst[i] = std::min(worst[i], beside(rules[i], entries, winner, &clog) / alone);
        }
      }
  EXPECT_GE(worst[1], 0.95);
  EXPECT_GE(worst[2], 0.95) << "with runs of 8 bursts";
  EXPECT_GE(worst[3], 0.95) << "with runs of 8 bursts, and fill";
  EXPECT_GE(worst[4], 0.95) << "and batch";
  EXPECT_LT(worst[0], 0.5) << "the thesis' rule is expected to lose here";
}

TEST(Traffic, RunsSpareTurnsOfTheBusAtLittleCostToTheLowerVirtualTime) {
  std::uint64_t turns[2];
  double lower[2], both[2];
  for (bool runs : {false, true}) {
    MemoryOptions o;
    o.controller.admission = AdmissionRule::share;
    o.controller.prepare = o.controller.fill = true;
    if (runs) o.controller.runs.any = 8;
    Traffic t(o);
    for (unsigned i = 0; i < 2; i++) {
      t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
      t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i + 1);
    }
    t.add(agent(Kind::chase, 0, 4));
    t.add(agent(Kind::copy, 1, 32));
    t.run_until(2 * kPsPerMs);
    turns[runs] = t.memory().stats().turnarounds;
    lower[runs] = bytes_per_ns(t, 0, 2 * kPsPerMs);
    both[runs] = lower[runs] + bytes_per_ns(t, 1, 2 * kPsPerMs);
  }
  EXPECT_LT(turns[true], turns[false] / 2);
  EXPECT_GT(both[true], 1.1 * both[false]);
  EXPECT_GT(lower[true], 0.98 * lower[false]);
}

/// Bandwidth of the first of two copies of 64 lines against the second's.
double ratio_of_copies(Ports ports, VTime first, VTime second) {
  MemoryOptions o;
  o.ports = ports;
  Traffic t(o);
  for (unsigned i = 0; i < 2; i++) {
    t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
    t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i == 0 ? first : second);
    t.add(agent(Kind::copy, i, 64));
  }
  t.run_until(5 * kPsPerMs);
  return static_cast<double>(t.counters(0).bytes_total()) /
         static_cast<double>(t.counters(1).bytes_total());
}

TEST(Traffic, OnePortIsSharedByTurnsWhateverTheVirtualTime) {
  EXPECT_GT(ratio_of_copies(Ports::multi, 1, 2), 10);
  // More lines are outstanding than the queue holds, so the crossbar decides.
  EXPECT_NEAR(ratio_of_copies(Ports::single, 1, 2), 1, 0.01);
  EXPECT_NEAR(ratio_of_copies(Ports::single, 2, 1), 1, 0.01);
  EXPECT_NEAR(ratio_of_copies(Ports::single, 1, 1), 1, 0.01);
}

TEST(FirstAgent, IsTheEarliestThenTheLowestTurnThenTheFirstAdded) {
  std::mt19937 random(1);
  for (unsigned agents : {1u, 2u, 3u, 7u, 254u}) {
    FirstAgent f;
    std::vector<std::pair<Ps, std::uint64_t>> all(agents, {kNever, 0});
    for (unsigned i = 0; i < agents; i++) f.add();
    for (unsigned step = 0; step < 2000; step++) {
      const std::size_t i = random() % agents;
      if (random() % 2) {
        all[i].first = random() % 4 ? random() % 8 : kNever;
        f.set_at(i, all[i].first);
      } else {
        all[i].second = random() % 4;
        f.set_turn(i, all[i].second);
      }
      const auto first = std::min_element(all.begin(), all.end());
      ASSERT_EQ(f.first(), static_cast<std::size_t>(first - all.begin())) << agents << " agents";
      ASSERT_EQ(f.next(), first->first);
    }
  }
}

TEST(FirstAgent, NobodySendsWithoutAgents) { EXPECT_EQ(FirstAgent().next(), kNever); }

std::uint64_t refusals(const Stats &s) {
  std::uint64_t refused = 0;
  for (const auto &of_direction : s.refused)
    for (std::uint64_t n : of_direction) refused += n;
  return refused;
}

// Without the limits each refused packet would be sent again for each burst: 254 refusals.
TEST(Traffic, HundredsOfAgentsAreHardlyEverSentAgainInVain) {
  for (unsigned rule = 0; rule < 3; rule++) {
    MemoryOptions o;
    if (rule == 1) o.controller.policy = Policy::frfcfs;
    if (rule == 2) o.controller.admission = AdmissionRule::share;
    o.controller.cores = 254;
    Traffic t(o);
    for (unsigned i = 0; i < 254; i++) {
      t.memory().controller().registers().write(mmio::kPidCore + 8 * i, 2 + i);
      t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i,
                                                rule == 2 ? 1 : 1 + i % 4);
      AgentOptions a = agent(Kind::copy, i, 8);
      a.base = footprint(a) * i;
      t.add(a);
    }
    t.run_until(kPsPerMs);
    const Stats &s = t.memory().stats();
    EXPECT_LT(refusals(s), 2 * (s.bursts[0] + s.bursts[1])) << rule;
  }
}

// Without this each burst would send the oldest refused packet again: 1.6 refusals per line.
TEST(Traffic, APacketThatCannotBeAcceptedIsNotSentAgain) {
  Traffic t{MemoryOptions()};
  for (unsigned i = 0; i < 2; i++) {
    t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, 1);
    t.add(agent(Kind::copy, i, 32));
  }
  t.run_until(kPsPerMs);
  const Stats &s = t.memory().stats();
  EXPECT_LT(refusals(s), s.packets[0] + s.packets[1]);
}

TEST(Traffic, ReadsThatAreNotAnsweredDoNotStopTheMemoryForEver) {
  MemoryOptions o;
  o.timing.backend = 20 * kPsPerUs;
  o.controller.cores = 16;
  Traffic t(o);
  for (unsigned i = 0; i < 16; i++) t.add(agent(Kind::stream, i, 128));
  t.run_until(kPsPerMs);
  t.clear_stats();
  t.run_until(2 * kPsPerMs);
  EXPECT_GT(t.memory().stats().packets[0], 1000u);
}

}  // namespace
}  // namespace drfq
