// SPDX-License-Identifier: GPL-2.0-only
// Memory traffic, contention and allocation between programs, on the machines of vm/machines.
#include <gtest/gtest.h>

#include "rdt.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// The thesis' memory bandwidth m, 4 bytes/ns, on the machine that is 15 times slower.
constexpr double kM = 4.0 / 15;

struct Share {
  double read = 0, write = 0;  ///< bytes/ns
  double rate() const { return read + write; }
};

/// Traffic of each core in bytes/ns over a time, from the ground truth.
std::vector<Share> measure(ProgramRunner *runner, Ps time) {
  std::stringstream before, line;
  runner->hardware.write_ground_truth(before);
  runner->run_to(runner->hardware.slowest_clock() + time);
  runner->hardware.write_ground_truth(line);
  const std::string text = line.str();
  const auto figure = [&text](const char *name, std::size_t *at) {
    *at = text.find(name, *at) + std::string(name).size();
    return std::strtod(text.c_str() + *at, nullptr);
  };
  std::size_t at = 0;
  const double ns = figure("\"interval_ns\":", &at);
  std::vector<Share> out(runner->hardware.description().cores);
  for (Share &s : out) {
    s.read = figure("\"read_bytes\":", &at) / ns;
    s.write = figure("\"write_bytes\":", &at) / ns;
  }
  return out;
}

std::uint64_t source(unsigned core) { return core * 100 * kMiB; }
Program copy_on(unsigned core) {
  return scattered(copier(source(core), source(core) + 36 * kMiB, 8 * kMiB));
}

void classify(ProgramRunner *runner, unsigned core, std::uint64_t rmid, std::uint64_t clos) {
  EXPECT_EQ(runner->hardware.wrmsr(core, runner->retired(core), msr::kPqrAssoc, clos << 32 | rmid),
            MsrResult::handled);
}

constexpr Ps kWarm = 40 * kPsPerMs, kTime = 40 * kPsPerMs;

TEST(Traffic, CopiesReadsAndWritesHaveTheRatiosOfAWriteAllocateCache) {
  ProgramRunner copy(shipped("thesis")), read(shipped("thesis")), write(shipped("thesis"));
  copy.put(0, copy_on(0));
  read.put(0, streamer(0, 16 * kMiB, AccessKind::load));
  write.put(0, streamer(0, 16 * kMiB, AccessKind::store));
  for (ProgramRunner *r : {&copy, &read, &write}) r->run_to(kWarm);
  const std::uint64_t before = copy.insns(0);
  const Share c = measure(&copy, kTime)[0];
  const double copied = static_cast<double>(copy.insns(0) - before) / kCopyInsns * kLineBytes /
                        (static_cast<double>(kTime) / 1e3);
  EXPECT_NEAR(c.rate() / copied, 3, 0.06);
  EXPECT_NEAR(c.read / c.write, 2, 0.04);
  const Share r = measure(&read, kTime)[0], w = measure(&write, kTime)[0];
  EXPECT_GT(r.read, 0.1);
  EXPECT_EQ(r.write, 0);
  EXPECT_NEAR(w.read / w.write, 1, 0.02);
}

TEST(Traffic, AWorkingSetThatFitsTheCacheCausesNone) {
  ProgramRunner runner(shipped("thesis"));
  runner.put(0, copier(0, 64 * kMiB, kMiB / 2));
  runner.run_to(kWarm);
  EXPECT_EQ(measure(&runner, kTime)[0].rate(), 0);
}

TEST(Contention, OneCopierReachesTheShareOfTheThesisAndTwoSaturateMemory) {
  for (unsigned n : {1u, 2u, 4u}) {
    ProgramRunner runner(shipped("thesis"));
    for (unsigned c = 0; c < n; c++) runner.put(c, copy_on(c));
    runner.run_to(kWarm);
    // Long enough to pass every array once: pages differ in their bank conflicts.
    const std::vector<Share> got = measure(&runner, n * 2 * kTime);
    double sum = 0, least = 1e9, most = 0;
    for (unsigned c = 0; c < n; c++) {
      sum += got[c].rate();
      least = std::min(least, got[c].rate());
      most = std::max(most, got[c].rate());
    }
    if (n == 1) {
      EXPECT_GE(sum / kM, 0.65);
      EXPECT_LE(sum / kM, 0.75);
    } else {
      EXPECT_NEAR(sum / kM, 1, 0.05) << n;
      EXPECT_LE((most - least) / (sum / n), 0.02) << n;
    }
    RecordProperty("share_of_m_" + std::to_string(n), std::to_string(sum / kM));
  }
}

TEST(Contention, TwoCopiersSaturateMemoryWhereverTheirArraysLie) {
  for (std::uint64_t distance : {2 * kMiB, 16 * kMiB, 18 * kMiB})
    for (std::uint64_t delay : {0u, 5'000u, 90'000u}) {
      ProgramRunner runner(shipped("thesis"));
      for (unsigned c = 0; c < 2; c++)
        runner.put(
            c, delayed(c * delay, copier(source(c), source(c) + 8 * kMiB + distance, 8 * kMiB)));
      runner.run_to(kWarm / 2);
      const std::vector<Share> got = measure(&runner, kTime);
      EXPECT_NEAR((got[0].rate() + got[1].rate()) / kM, 1, 0.05) << distance << " " << delay;
    }
}

double throttled(const MachineDescription &d, unsigned level) {
  ProgramRunner runner(d);
  EXPECT_EQ(runner.hardware.wrmsr(0, {}, msr::kMbaDelay + 1, 100 - level), MsrResult::handled);
  classify(&runner, 0, 0, 1);
  runner.put(0, copy_on(0));
  runner.run_to(kWarm / 2);
  return measure(&runner, kTime / 2)[0].rate();
}

TEST(Throttling, EachLowerLevelSlowsACopier) {
  for (const char *name : {"thesis", "xeon"}) {
    double last = 0;
    for (unsigned level = 10; level <= 100; level += 10) {
      const double got = throttled(shipped(name), level);
      EXPECT_GT(got, last) << name << " " << level;
      last = got;
    }
    // At least as strong as the MT2 paper measured at its lowest level.
    EXPECT_LT(throttled(shipped(name), 10), 28.0 / 102 * last) << name;
  }
}

TEST(Throttling, TheMt2CurveHasNoEffectAtLevel60AndAbove) {
  MachineDescription d = shipped("xeon");  // the MT2 paper measured on this processor
  d.rdt.throttle = ThrottleCurve::mt2;
  const double all = throttled(d, 100);
  EXPECT_EQ(throttled(d, 60), all);
  EXPECT_LT(throttled(d, 30), 0.9 * all);
  EXPECT_GT(throttled(d, 10), 0.2 * all);
}

TEST(Throttling, ACoreThatHitsItsPrivateCacheIsNotSlowed) {
  ProgramRunner runner(shipped("thesis"));
  EXPECT_EQ(runner.hardware.wrmsr(0, {}, msr::kMbaDelay + 1, 90), MsrResult::handled);
  classify(&runner, 0, 0, 1);
  runner.put(0, spinner(0));
  runner.put(1, copy_on(1));
  runner.run_to(2 * kPsPerMs);  // its first accesses miss
  const std::uint64_t before = runner.insns(0);
  std::stringstream warm, line;
  runner.hardware.write_ground_truth(warm);
  runner.run_to(7 * kPsPerMs);
  runner.hardware.write_ground_truth(line);
  // The first of these numbers is core 0's.
  const std::string expected = "\"stall_cycles\":0,", text = line.str();
  EXPECT_EQ(text.substr(text.find("\"stall_cycles\":"), expected.size()), expected) << text;
  EXPECT_NEAR(static_cast<double>(runner.insns(0) - before), 1e6, 1e4);
}

TEST(Allocation, AHalfOfTheCacheKeepsItsWorkingSetDespiteAStream) {
  for (bool split : {true, false}) {
    ProgramRunner runner(shipped("thesis"));
    for (unsigned c = 0; c < 2; c++) {
      const std::uint64_t mask = split ? (c == 0 ? 0x0f : 0xf0) : 0xff;
      EXPECT_EQ(runner.hardware.wrmsr(c, {}, msr::kL3Mask + 1 + c, mask), MsrResult::handled);
      classify(&runner, c, 1 + c, 1 + c);
      runner.put(c, streamer(c * 128 * kMiB, kMiB, AccessKind::load));
    }
    runner.put(2, copy_on(2));  // fills every way of its class
    if (split) {
      // The stream shares only the second half.
      EXPECT_EQ(runner.hardware.wrmsr(2, {}, msr::kL3Mask, 0xf0), MsrResult::handled);
    }
    runner.run_to(kWarm);
    const std::vector<Share> got = measure(&runner, kTime);
    if (split) {
      EXPECT_EQ(got[0].read, 0) << "kept";
      EXPECT_GT(got[1].read, 0.01) << "disturbed";
    } else {
      EXPECT_GT(got[0].read, 0.01) << "without masks it is disturbed too";
    }
  }
}

TEST(Allocation, TwoWorkingSetsOfHalfTheCacheStayInTheirHalves) {
  ProgramRunner runner(shipped("thesis"));
  for (unsigned c = 0; c < 2; c++) {
    EXPECT_EQ(runner.hardware.wrmsr(c, {}, msr::kL3Mask + 1 + c, c == 0 ? 0x0f : 0xf0),
              MsrResult::handled);
    classify(&runner, c, 1 + c, 1 + c);
    runner.put(c, streamer(c * 128 * kMiB, kMiB, AccessKind::load));
  }
  runner.run_to(kWarm);
  for (const Share &s : measure(&runner, kTime)) EXPECT_EQ(s.rate(), 0);
  std::uint64_t held = 0;
  EXPECT_EQ(runner.hardware.wrmsr(0, runner.retired(0), msr::kQmEvtsel, std::uint64_t{1} << 32 | 1),
            MsrResult::handled);
  EXPECT_EQ(runner.hardware.rdmsr(0, runner.retired(0), msr::kQmCtr, &held), MsrResult::handled);
  EXPECT_EQ(held * runner.hardware.description().rdt.upscale, kMiB);
}

TEST(Monitoring, BandwidthCountersAgreeWithTheGroundTruth) {
  ProgramRunner runner(shipped("xeon"));
  for (unsigned c = 0; c < 2; c++) {
    classify(&runner, c, 5 + c, 0);
    runner.put(c, c == 0 ? copy_on(c) : streamer(source(c), 16 * kMiB, AccessKind::load));
  }
  runner.run_to(4 * kPsPerMs);
  std::uint64_t count[2];
  for (unsigned c = 0; c < 2; c++) {
    const std::uint64_t select = std::uint64_t{5 + c} << 32 | 2;
    EXPECT_EQ(runner.hardware.wrmsr(c, runner.retired(c), msr::kQmEvtsel, select),
              MsrResult::handled);
    EXPECT_EQ(runner.hardware.rdmsr(c, runner.retired(c), msr::kQmCtr, &count[c]),
              MsrResult::handled);
  }
  std::stringstream line;
  runner.hardware.write_ground_truth(line);
  const std::string text = line.str();
  for (unsigned c = 0; c < 2; c++) {
    const std::size_t at = text.find("{\"rmid\":" + std::to_string(5 + c));
    ASSERT_NE(at, std::string::npos);
    const std::uint64_t read =
        std::strtoull(text.c_str() + text.find("read_bytes\":", at) + 12, nullptr, 10);
    const std::uint64_t write =
        std::strtoull(text.c_str() + text.find("write_bytes\":", at) + 13, nullptr, 10);
    // Reading the second counter may have played back more of the first core's log.
    EXPECT_NEAR(static_cast<double>(count[c] * 64), static_cast<double>(read + write),
                0.01 * static_cast<double>(read + write))
        << c;
    EXPECT_GT(count[c], 1000u);
  }
}

}  // namespace
}  // namespace drfq::hardware
