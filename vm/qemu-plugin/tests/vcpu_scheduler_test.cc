// SPDX-License-Identifier: GPL-2.0-only
// Turns, halts, timers and data accesses of the plugin, on a fake QEMU.
#include "qemu-plugin/vcpu_scheduler.hh"

#include <gtest/gtest.h>

#include <thread>

#include "qemu-plugin/data_path.hh"
#include "fake_qemu.hh"
#include "hardware/tests/program_runner.hh"

namespace drfq::plugin {
namespace {

class VcpuSchedulerTest : public testing::Test {
 protected:
  static hardware::MachineDescription plain() {
    hardware::MachineDescription d = hardware::shipped("thesis");
    d.prefetch.kind = hardware::PrefetcherConfig::Kind::none;
    return d;
  }
  /// The default is so long that no test depends on the host's speed.
  explicit VcpuSchedulerTest(std::chrono::milliseconds wake_timeout = std::chrono::hours(1),
                             const hardware::MachineDescription &d = plain())
      : hardware_(d), scheduler_(hardware_, 4, wake_timeout), data_(hardware_, scheduler_) {
    fake = FakeQemu{};
    for (unsigned c = 0; c < 4; c++) vcpus_.push_back(fake_vcpu(c, &counters_[c]));
    fake.memory[apic::kBase + apic::kId] = 2u << 24;
    fake.memory[apic::kBase + apic::kSpuriousInterrupt] = apic::kSoftwareEnable | 0xff;
    fake.memory[apic::kBase + apic::kLvtTimer] = 1u << 16;
    scheduler_.start(kPsPerMs, nullptr, 0);
  }
  bool turn(unsigned c) { return scheduler_.take_turn(vcpus_[c], vcpus_[c].retired()); }
  /// Runs a vCPU until a time. It must be the only one awake.
  void run_to(unsigned c, Ps to) {
    for (RetiredInsns p = vcpus_[c].retired(); hardware_.now(c, p.total()) < to;
         p = vcpus_[c].retired()) {
      counters_[c].insns[0] += kTurnThreshold - counters_[c].turn_counter;
      turn(c);
    }
  }
  /// vCPU 1 pauses and halts. vCPU 0 sends it an interrupt when it is more than a quantum ahead.
  void halt_and_send_interrupt(unsigned pauses = 0) {
    turn(0);
    fake.memory[apic::kBase + apic::kId] = 1u << 24;
    turn(1);
    vcpus_[1].pauses[0] = pauses;
    ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
    run_to(0, 2 * kPsPerMs);
    apic(0, apic::kCommandHigh, 1u << 24);
    apic(0, apic::kCommand, 0xfd);
  }
  /// vCPU 0 takes a periodic timer over that has so many ticks left of its period.
  void take_over_periodic_timer(std::uint32_t left) {
    constexpr std::uint32_t kPeriod = 100'000;
    fake.memory[apic::kBase + apic::kLvtTimer] = 1u << 17 | 0x40;
    fake.memory[apic::kBase + apic::kDivide] = 0xb;
    fake.memory[apic::kBase + apic::kInitialCount] = kPeriod;
    fake.memory[apic::kBase + apic::kCurrentCount] = left;
    const Ps end = hardware_.slowest_clock() + left * ApicTimer::kTick;
    turn(0);
    ASSERT_FALSE(fake.writes.empty());
    EXPECT_EQ(fake.writes[0].first, apic::kBase + apic::kInitialCount) << "QEMU's is stopped";
    run_to(0, end + kPeriod / 2 * ApicTimer::kTick);
    EXPECT_EQ(fake.writes.size(), 2u);
    run_to(0, end + kPeriod * ApicTimer::kTick);
    EXPECT_EQ(fake.writes.size(), 3u);
  }
  void apic(unsigned c, std::uint32_t offset, std::uint32_t value) {
    scheduler_.apic_write(vcpus_[c], offset, value, hardware_.now(c, vcpus_[c].retired().total()));
  }

  hardware::HardwareModel hardware_;
  VcpuScheduler scheduler_;
  DataPath data_;
  InlineCounters counters_[4] = {};
  std::vector<Vcpu> vcpus_;
};

TEST_F(VcpuSchedulerTest, AChunkLastsOneQuantum) {
  turn(0);
  const hardware::MachineDescription &d = hardware_.description();
  EXPECT_EQ(kTurnThreshold - counters_[0].turn_counter, d.quantum * 1000 / d.fs_per_insn());
}

TEST_F(VcpuSchedulerTest, ALoneVcpuNeverWaitsAndTwoStayWithinAQuantum) {
  turn(0);
  run_to(0, 2 * kPsPerMs);
  turn(1);  // wakes at the slowest clock
  const Ps far = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_GE(hardware_.now(1, 0), far - hardware_.description().quantum);
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0));
  EXPECT_EQ(counters_[0].turn_counter, kTurnThreshold)
      << "the wait timed out: it asks again before its next block";
  EXPECT_FALSE(scheduler_.catch_up(vcpus_[0], vcpus_[0].retired()));
  counters_[1].insns[0] += 200000;
  turn(1);
  EXPECT_TRUE(scheduler_.catch_up(vcpus_[0], vcpus_[0].retired()));
}

TEST_F(VcpuSchedulerTest, AStartedTimerReplacesQemusAndSendsItsInterrupt) {
  turn(0);
  apic(0, apic::kLvtTimer, 0xec);
  apic(0, apic::kDivide, 0xb);
  apic(0, apic::kInitialCount, 500'000);  // 0.5 ms
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0],
            (std::pair<std::uint64_t, std::uint32_t>(apic::kBase + apic::kInitialCount, 0)))
      << "QEMU's timer is stopped";
  EXPECT_EQ(counters_[0].turn_counter, kTurnThreshold) << "the present chunk may be too long";
  fake.writes.clear();
  turn(0);
  run_to(0, kPsPerMs * 14 / 10);
  EXPECT_TRUE(fake.writes.empty());
  run_to(0, kPsPerMs * 15 / 10);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].first, apic::kBase | 2u << 12) << "to its APIC";
  EXPECT_EQ(fake.writes[0].second, 0xecu);
}

TEST_F(VcpuSchedulerTest, ATimerThatRanBeforeIsTakenOver) {
  fake.memory[apic::kBase + apic::kLvtTimer] = 0x40;
  fake.memory[apic::kBase + apic::kDivide] = 0xb;
  fake.memory[apic::kBase + apic::kInitialCount] = 300'000;
  fake.memory[apic::kBase + apic::kCurrentCount] = 100'000;
  turn(0);
  fake.writes.clear();
  run_to(0, hardware_.slowest_clock() + 100'000 * ApicTimer::kTick);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].second, 0x40u);
}

TEST_F(VcpuSchedulerTest, APeriodicTimerThatRanBeforeKeepsItsPeriod) {
  take_over_periodic_timer(30'000);
}

TEST_F(VcpuSchedulerTest, APeriodicTimerThatIsTakenOverAtTheEndOfItsPeriodGoesOn) {
  take_over_periodic_timer(0);
}

TEST_F(VcpuSchedulerTest, ATimerThatHasRunDownIsNotStartedAgain) {
  fake.memory[apic::kBase + apic::kLvtTimer] = 0x40;
  fake.memory[apic::kBase + apic::kInitialCount] = 1000;
  turn(0);
  fake.writes.clear();
  run_to(0, 2 * kPsPerMs);
  EXPECT_TRUE(fake.writes.empty());
}

TEST_F(VcpuSchedulerTest, TheLastVcpuAwakeDeliversTimersOfHaltedOnes) {
  turn(0);
  turn(1);
  apic(1, apic::kLvtTimer, 0x33);
  apic(1, apic::kDivide, 0xb);
  apic(1, apic::kInitialCount, 100'000);
  EXPECT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  fake.writes.clear();
  run_to(0, kPsPerMs + 200'000 * ApicTimer::kTick);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].second, 0x33u);
}

/// vCPU 0 delivers the timer when it is nearly a quantum ahead of vCPU 1.
TEST_F(VcpuSchedulerTest, ATimerOfAHaltedVcpuWakesItWhenDueAndNotAtTheDeliverersClock) {
  for (unsigned c : {0u, 1u, 2u}) turn(c);
  apic(2, apic::kLvtTimer, 0x33);
  apic(2, apic::kDivide, 0xb);
  apic(2, apic::kInitialCount, 5000);
  const Ps due = hardware_.now(2, 0) + 5000 * ApicTimer::kTick;
  ASSERT_EQ(scheduler_.halt(vcpus_[2], vcpus_[2].retired()), VcpuScheduler::Halt::sleep);
  counters_[1].insns[0] += 200;
  EXPECT_TRUE(turn(1));
  const hardware::MachineDescription &d = hardware_.description();
  counters_[0].insns[0] += d.quantum * 1000 / d.fs_per_insn();
  fake.writes.clear();
  EXPECT_TRUE(turn(0));
  ASSERT_EQ(fake.writes.size(), 1u);
  turn(2);
  EXPECT_EQ(hardware_.now(2, 0), due);
}

TEST_F(VcpuSchedulerTest, AVcpuWithAPendingWakeUpIsWaitedFor) {
  halt_and_send_interrupt();
  const Ps wake_time = hardware_.now(0, counters_[0].insns[0]);
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0)) << "vCPU 1 has the clock of its wake-up";
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(hardware_.now(1, 0), wake_time);
  counters_[1].insns[0] += 200000;
  counters_[1].turn_counter = kTurnThreshold;
  turn(1);
  EXPECT_TRUE(turn(0));
}

/// Pauses before a halt are busy time before it, not a delay of the wake-up.
TEST_F(VcpuSchedulerTest, PausesBeforeAHaltDoNotDelayTheWakeUp) {
  halt_and_send_interrupt(20);
  const Ps wake_time = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_TRUE(turn(1));
  counters_[0].insns[0] += 2000;
  EXPECT_TRUE(turn(0)) << "vCPU 1 is the slowest now";
  EXPECT_EQ(hardware_.now(1, 0), wake_time);
}

/// vCPU 0 is blocked on a miss. Its clock lacks the stall so far.
TEST_F(VcpuSchedulerTest, AnInterruptOfABlockedVcpuDoesNotSetTheSlowestClockBack) {
  fake.memory[apic::kBase + apic::kId] = 0;
  for (unsigned c : {0u, 1u}) turn(c);
  fake.memory[apic::kBase + apic::kId] = 2u << 24;
  turn(2);
  ASSERT_EQ(scheduler_.halt(vcpus_[2], vcpus_[2].retired()), VcpuScheduler::Halt::sleep);
  hardware_.access(0, 0, 0, 8, hardware::AccessKind::load, Ring::kernel);
  counters_[0].insns[0] += 10;
  EXPECT_TRUE(turn(0));
  counters_[1].insns[0] += 100;
  EXPECT_TRUE(turn(1));
  const Ps slowest = hardware_.slowest_clock();
  ASSERT_LT(hardware_.now(0, counters_[0].insns[0]), slowest);
  apic(0, apic::kCommandHigh, 2u << 24);
  apic(0, apic::kCommand, 0xfd);
  EXPECT_TRUE(turn(2));
  EXPECT_GE(hardware_.now(2, 0), slowest);
  EXPECT_GE(hardware_.slowest_clock(), slowest);
}

TEST_F(VcpuSchedulerTest, ABroadcastDoesNotBeginTheWakeUpOfACpuThatIsOffline) {
  constexpr std::uint32_t kAllOthers = 3u << 18;
  turn(0);
  turn(1);
  apic(1, apic::kSpuriousInterrupt, 0xff);
  ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  apic(0, apic::kCommand, kAllOthers | 0xfb);
  for (unsigned quantum = 0; quantum < 3; quantum++) {
    counters_[0].insns[0] += kTurnThreshold - counters_[0].turn_counter;
    EXPECT_TRUE(turn(0)) << quantum;
  }
  turn(1);
  apic(1, apic::kSpuriousInterrupt, apic::kSoftwareEnable | 0xff);
  ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  apic(0, apic::kCommand, kAllOthers | 0xfb);
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::retry)
      << "it is online again";
}

TEST_F(VcpuSchedulerTest, ALogicalInterruptWakesTheCpuThatHasWrittenItsDestination) {
  turn(0);
  turn(1);
  apic(1, apic::kLogicalDestination, 8u << 24);
  ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  apic(0, apic::kCommandHigh, 8u << 24);
  apic(0, apic::kCommand, 1u << 11 | 0xfb);
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::retry);
}

TEST_F(VcpuSchedulerTest, IdleTimeDoesNotAdvanceWhileAWakeUpIsPending) {
  halt_and_send_interrupt();
  const Ps wake_time = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::retry);
  EXPECT_EQ(hardware_.now(0, counters_[0].insns[0]), wake_time);
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::sleep)
      << "vCPU 1 is awake";
}

/// The wake-up falls into the wait of vCPU 0 in most tries. The bound holds in all.
TEST_F(VcpuSchedulerTest, AnIdleVcpuDoesNotPassOneThatADeviceWakesMeanwhile) {
  turn(0);
  for (unsigned i = 0; i < 20; i++) {
    std::thread idle([&] { (void)scheduler_.halt(vcpus_[0], vcpus_[0].retired()); });
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    turn(1);
    idle.join();
    EXPECT_LE(hardware_.now(0, 0), hardware_.now(1, 0) + hardware_.description().quantum) << i;
    turn(0);
    ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  }
}

/// vCPU 1 starts its timer and halts again before vCPU 0 looks, in most tries.
TEST_F(VcpuSchedulerTest, AnIdleVcpuDoesNotPassATimerThatIsStartedMeanwhile) {
  turn(0);
  for (unsigned i = 0; i < 20; i++) {
    std::thread idle([&] { (void)scheduler_.halt(vcpus_[0], vcpus_[0].retired()); });
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    turn(1);
    apic(1, apic::kLvtTimer, 0x33);
    apic(1, apic::kDivide, 0xb);
    apic(1, apic::kInitialCount, 50'000);
    const Ps due = hardware_.now(1, 0) + 50'000 * ApicTimer::kTick;
    (void)scheduler_.halt(vcpus_[1], vcpus_[1].retired());
    idle.join();
    EXPECT_LE(hardware_.now(0, 0), due) << i;
    turn(1);
    apic(1, apic::kInitialCount, 0);
    turn(0);
    ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  }
}

class SchedulerWithZeroWakeTimeout : public VcpuSchedulerTest {
 protected:
  SchedulerWithZeroWakeTimeout() : VcpuSchedulerTest(std::chrono::milliseconds(0)) {}
};

TEST_F(SchedulerWithZeroWakeTimeout, AWakeUpIsCancelledAfterItsTimeout) {
  halt_and_send_interrupt();
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0)) << "the first turn waits for the wake-up";
  EXPECT_TRUE(turn(0));
  const Ps ahead = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_TRUE(turn(1)) << "it can still wake later";
  EXPECT_GE(hardware_.now(1, 0), ahead - hardware_.description().quantum);
}

TEST_F(VcpuSchedulerTest, RepeatedAccessesToALineReachTheModelOnce) {
  turn(0);
  fake.pages[0x400] = 0x1000;
  std::stringstream line;
  const auto touch = [&](std::uint64_t address) {
    data_.access(vcpus_[0], info_of(8), address, hardware::AccessKind::load, 1, Ring::user);
  };
  touch(0x400000);
  touch(0x400008);
  touch(0x400010);
  touch(0x40007c);  // spans two lines
  touch(0x999000);  // unmapped
  counters_[0].insns[1] = 10;
  hardware_.drain(0, vcpus_[0].retired());
  hardware_.write_ground_truth(line);
  EXPECT_NE(line.str().find("\"llc_references\":{\"kernel\":0,\"user\":3}"), std::string::npos)
      << line.str();
}

class SchedulerWithStreamingStores : public VcpuSchedulerTest {
 protected:
  SchedulerWithStreamingStores() : VcpuSchedulerTest(std::chrono::hours(1), streaming()) {}
  static hardware::MachineDescription streaming() {
    hardware::MachineDescription d = plain();
    d.streaming_stores = true;
    return d;
  }
};

TEST_F(SchedulerWithStreamingStores, ALineThatIsStreamedAgainIsWrittenAgain) {
  turn(0);
  fake.pages[0x400] = 0x1000;
  for (unsigned pass = 0; pass < 3; pass++)
    for (std::uint64_t at = 0; at < hardware::kLineBytes; at += 8)
      data_.access(vcpus_[0], info_of(8), 0x400000 + at, hardware::AccessKind::streaming, 1,
                   Ring::user);
  counters_[0].insns[1] = 24;
  hardware_.drain(0, vcpus_[0].retired());
  EXPECT_EQ(hardware::number_after(hardware::ground_truth(&hardware_), "write_bytes"),
            3 * hardware::kLineBytes);
}

TEST_F(VcpuSchedulerTest, ALineThatStoresEvictedIsLoadedAgain) {
  turn(0);
  const hardware::CacheConfig &l1 = hardware_.description().l1;
  const std::uint64_t pages_per_way = l1.bytes / l1.ways / 4096;
  // Lines of one set, one more than it has ways.
  const auto touch = [&](std::uint64_t i, hardware::AccessKind kind) {
    fake.pages[0x400 + i] = 0x1000 + i * pages_per_way;
    data_.access(vcpus_[0], info_of(8), (0x400 + i) << 12, kind, 1, Ring::user);
  };
  touch(0, hardware::AccessKind::load);
  for (std::uint64_t i = 1; i <= l1.ways; i++) touch(i, hardware::AccessKind::store);
  touch(0, hardware::AccessKind::load);
  counters_[0].insns[1] = 10;
  hardware_.drain(0, vcpus_[0].retired());
  const std::string references =
      "\"llc_references\":{\"kernel\":0,\"user\":" + std::to_string(l1.ways + 2) + "}";
  const std::string line = hardware::ground_truth(&hardware_);
  EXPECT_NE(line.find(references), std::string::npos) << line;
}

TEST_F(VcpuSchedulerTest, EveryAccessToADeviceOrAWatchedPageIsReported) {
  turn(0);
  std::vector<std::uint64_t> bar(hardware::HardwareModel::kBarBytes / 8);
  hardware_.attach_bar(bar.data(), std::uint64_t{0x5000} << 12);
  fake.pages[0x700] = apic::kBase >> 12;
  fake.pages[0x701] = 0x5000 + (0x40000 >> 12);  // virtualTime of cores in the controller
  fake.io = apic::kBase >> 12;
  const auto store = [&](std::uint64_t address, std::uint64_t value, unsigned bytes) {
    fake.value = value;
    data_.access(vcpus_[0], info_of(bytes), address, hardware::AccessKind::store, 1, Ring::kernel);
  };
  store(0x700000 + apic::kInitialCount, 7, 4);
  store(0x700000 + apic::kInitialCount, 7, 4);
  EXPECT_EQ(fake.writes.size(), 2u) << "QEMU's timer was stopped twice";
  const std::uint32_t generation = data_.generation();
  store(0x701008, 5, 8);
  store(0x701008, 6, 8);
  EXPECT_EQ(data_.generation(), generation) << "the same pages are watched";
  hardware_.drain(0, vcpus_[0].retired());
  EXPECT_EQ(bar[0x40008 / 8], 6u);
}

TEST_F(VcpuSchedulerTest, AStoreToTheMailboxReachesTheRegistersAndTheCache) {
  turn(0);
  std::vector<std::uint64_t> bar(hardware::HardwareModel::kBarBytes / 8);
  hardware_.attach_bar(bar.data(), std::uint64_t{0x5000} << 12);
  fake.pages[0x701] = 0x5000 + (mailbox::kAddress >> 12);
  fake.pages[0x702] = 0x66;
  const auto store = [&](std::uint64_t address, std::uint64_t value) {
    fake.value = value;
    data_.access(vcpus_[0], info_of(8), address, hardware::AccessKind::store, 1, Ring::kernel);
  };
  store(0x702000 + mailbox::kLabelPid, 8);  // an ordinary page, which is remembered
  const std::uint32_t generation = data_.generation();
  store(0x701000, std::uint64_t{0x66} << 12);
  EXPECT_EQ(data_.generation(), generation + 1);
  store(0x702000 + mailbox::kLabelPid, 9);
  store(0x702000 + mailbox::kLabelValid, mmio::kIdValue);
  EXPECT_EQ(data_.generation(), generation + 1);
  EXPECT_EQ(bar[mmio::kPidCore / 8], 9u);
  hardware_.drain(0, vcpus_[0].retired());
  std::stringstream line;
  hardware_.write_ground_truth(line);
  EXPECT_NE(line.str().find("\"llc_misses\":{\"kernel\":1,"), std::string::npos) << line.str();
}

TEST_F(VcpuSchedulerTest, IntervalsThatPassAtOnceHaveOneLine) {
  std::stringstream truth;
  const Ps quantum = hardware_.description().quantum, interval = quantum / 5;
  scheduler_.start(kPsPerMs, &truth, interval);
  turn(0);
  run_to(0, kPsPerMs + 10 * quantum);
  std::uint64_t last = kPsPerMs / kPsPerNs, lines = 0;
  for (std::string line; std::getline(truth, line); lines++) {
    const std::uint64_t at = std::stoull(line.substr(line.find(':') + 1));
    EXPECT_GT(at, last) << line.substr(0, 60);
    last = at;
  }
  EXPECT_GT(lines, 5u);
}

TEST_F(VcpuSchedulerTest, ARegisterKeepsAll64Bits) {
  vcpus_[0].set(r15, ~std::uint64_t{0});
  EXPECT_EQ(vcpus_[0].get(r15), ~std::uint64_t{0});
  EXPECT_EQ(vcpus_[0].get(r8), 0u);
}

}  // namespace
}  // namespace drfq::plugin
