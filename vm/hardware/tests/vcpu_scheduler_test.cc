// SPDX-License-Identifier: GPL-2.0-only
// Turns, timers and data accesses of the plugin, with a stand-in for QEMU.
#include "qemu-plugin/vcpu_scheduler.hh"

#include <gtest/gtest.h>

#include "qemu-plugin/data_path.hh"
#include "fake_qemu.hh"
#include "program_runner.hh"

namespace drfq::plugin {
namespace {

TEST(ApicTimer, CountsInDividedTicks) {
  ApicTimer t;
  EXPECT_EQ(t.due(), kNever);
  t.write_lvt(0xec);
  t.write_divide(0xb);  // by 1
  t.start(100, 5);
  EXPECT_EQ(t.due(), 5 + 100 * ApicTimer::kTick);
  EXPECT_TRUE(t.fire());
  EXPECT_EQ(t.due(), kNever) << "one shot";
  for (const auto &[code, by] : {std::pair{0u, 2u},
                                 {1u, 4u},
                                 {2u, 8u},
                                 {3u, 16u},
                                 {8u, 32u},
                                 {9u, 64u},
                                 {10u, 128u},
                                 {11u, 1u}}) {
    t.write_divide(code);
    t.start(10, 0);
    EXPECT_EQ(t.due(), 10 * by * ApicTimer::kTick) << code;
  }
  t.start(0, 7);
  EXPECT_EQ(t.due(), kNever) << "0 stops it";
}

TEST(ApicTimer, PeriodicMaskedAndReservedVectors) {
  ApicTimer t;
  t.write_divide(0xb);
  t.write_lvt(1u << 17 | 0x30);
  t.start(10, 0);
  EXPECT_TRUE(t.fire());
  EXPECT_EQ(t.due(), 20 * ApicTimer::kTick);
  t.write_lvt(1u << 16 | 0x30);
  EXPECT_FALSE(t.fire()) << "masked";
  t.write_lvt(0x0f);
  t.start(10, 0);
  EXPECT_FALSE(t.fire()) << "vectors below 16 are not legal";
}

TEST(Apic, WhomACommandWakes) {
  const apic::Identity i{3, 1u << 2};
  const auto to = [&](std::uint32_t command, std::uint32_t destination, bool is_sender = false) {
    return apic::wakes(command, destination << 24, is_sender, i);
  };
  constexpr std::uint32_t kLogical = 1u << 11, kShorthand = 1u << 18;
  EXPECT_TRUE(to(0xfd, 3));
  EXPECT_FALSE(to(0xfd, 2));
  EXPECT_TRUE(to(0xfd, 0xff)) << "all";
  EXPECT_TRUE(to(kLogical | 0xfd, 6));
  EXPECT_FALSE(to(kLogical | 0xfd, 3));
  EXPECT_FALSE(to(1 * kShorthand, 3)) << "self";
  EXPECT_TRUE(to(2 * kShorthand, 0)) << "all";
  EXPECT_TRUE(to(3 * kShorthand, 0)) << "all others";
  EXPECT_FALSE(to(3 * kShorthand, 0, true));
  EXPECT_TRUE(to(4u << 8, 3)) << "NMI";
  EXPECT_FALSE(to(5u << 8, 3)) << "INIT";
  EXPECT_TRUE(to(6u << 8, 3)) << "start-up";
}

class GateOf : public testing::Test {
 protected:
  static hardware::MachineDescription plain() {
    hardware::MachineDescription d = hardware::shipped("thesis");
    d.prefetch.kind = hardware::PrefetcherConfig::Kind::none;
    return d;
  }
  /// No test shall depend on how long the host takes.
  explicit GateOf(std::chrono::milliseconds wake_timeout = std::chrono::hours(1))
      : hardware_(plain()), scheduler_(hardware_, 4, wake_timeout), data_(hardware_, scheduler_) {
    fake = FakeQemu{};
    for (unsigned c = 0; c < 4; c++) vcpus_.push_back(fake_vcpu(c, &counters_[c]));
    fake.memory[apic::kBase + apic::kId] = 2u << 24;
    fake.memory[apic::kBase + apic::kLvtTimer] = 1u << 16;
    scheduler_.start(kPsPerMs, nullptr, 0);
  }
  bool turn(unsigned c) { return scheduler_.take_turn(vcpus_[c], vcpus_[c].retired()); }
  /// Runs a core until a time; it must be the only one awake.
  void run_to(unsigned c, Ps to) {
    for (RetiredInsns p = vcpus_[c].retired(); hardware_.now(c, p.total()) < to;
         p = vcpus_[c].retired()) {
      counters_[c].insns[0] += kTurnThreshold - counters_[c].turn_counter;
      turn(c);
    }
  }
  /// Core 1 halts, and core 0 is a quantum and more ahead of it when it sends an interrupt.
  void halt_and_call() {
    turn(0);
    fake.memory[apic::kBase + apic::kId] = 1u << 24;
    turn(1);
    ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
    run_to(0, 2 * kPsPerMs);
    apic(0, apic::kCommandHigh, 1u << 24);
    apic(0, apic::kCommand, 0xfd);
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

TEST_F(GateOf, AChunkIsAQuantum) {
  turn(0);
  const hardware::MachineDescription &d = hardware_.description();
  EXPECT_EQ(kTurnThreshold - counters_[0].turn_counter, d.quantum * 1000 / d.fs_per_insn());
}

TEST_F(GateOf, ALoneCoreNeedNotWaitAndTwoKeepStep) {
  turn(0);
  run_to(0, 2 * kPsPerMs);
  turn(1);  // wakes at the horizon
  const Ps far = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_GE(hardware_.now(1, 0), far - hardware_.description().quantum);
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0));
  EXPECT_EQ(counters_[0].turn_counter, kTurnThreshold)
      << "patience ended: it asks again before it does anything";
  EXPECT_FALSE(scheduler_.catch_up(vcpus_[0], vcpus_[0].retired()));
  counters_[1].insns[0] += 200000;
  turn(1);
  EXPECT_TRUE(scheduler_.catch_up(vcpus_[0], vcpus_[0].retired()));
}

TEST_F(GateOf, TheTimerIsOursAndItsInterruptIsSent) {
  turn(0);
  apic(0, apic::kLvtTimer, 0xec);
  apic(0, apic::kDivide, 0xb);
  apic(0, apic::kInitialCount, 500'000);  // 0.5 ms
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0],
            (std::pair<std::uint64_t, std::uint32_t>(apic::kBase + apic::kInitialCount, 0)))
      << "QEMU's is stopped";
  EXPECT_EQ(counters_[0].turn_counter, kTurnThreshold) << "the chunk that runs may be too long";
  fake.writes.clear();
  turn(0);
  run_to(0, kPsPerMs * 14 / 10);
  EXPECT_TRUE(fake.writes.empty());
  run_to(0, kPsPerMs * 15 / 10);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].first, apic::kBase | 2u << 12) << "to its APIC";
  EXPECT_EQ(fake.writes[0].second, 0xecu);
}

TEST_F(GateOf, ATimerThatRanBeforeIsAdopted) {
  fake.memory[apic::kBase + apic::kLvtTimer] = 0x40;
  fake.memory[apic::kBase + apic::kDivide] = 0xb;
  fake.memory[apic::kBase + apic::kCurrentCount] = 100'000;
  turn(0);
  fake.writes.clear();
  run_to(0, hardware_.slowest_clock() + 100'000 * ApicTimer::kTick);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].second, 0x40u);
}

TEST_F(GateOf, TheLastOneAwakeServesSleepersTimers) {
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

TEST_F(GateOf, WhoIsCalledIsWaitedFor) {
  halt_and_call();
  const Ps called = hardware_.now(0, counters_[0].insns[0]);
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0)) << "its clock stands where it was called";
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(hardware_.now(1, 0), called);
  counters_[1].insns[0] += 200000;
  counters_[1].turn_counter = kTurnThreshold;
  turn(1);
  EXPECT_TRUE(turn(0));
}

TEST_F(GateOf, TheLastOneAwakeDoesNotPassTimeWhileOneIsCalled) {
  halt_and_call();
  const Ps called = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::retry);
  EXPECT_EQ(hardware_.now(0, counters_[0].insns[0]), called);
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::sleep)
      << "the other one is there";
}

class ImpatientGateOf : public GateOf {
 protected:
  ImpatientGateOf() : GateOf(std::chrono::milliseconds(0)) {}
};

TEST_F(ImpatientGateOf, WhoDoesNotComeIsGivenUp) {
  halt_and_call();
  counters_[0].insns[0] += 100000;
  counters_[0].turn_counter = kTurnThreshold;
  EXPECT_FALSE(turn(0)) << "it was waited for";
  EXPECT_TRUE(turn(0));
  const Ps ahead = hardware_.now(0, counters_[0].insns[0]);
  EXPECT_TRUE(turn(1)) << "after all";
  EXPECT_GE(hardware_.now(1, 0), ahead - hardware_.description().quantum);
}

TEST_F(GateOf, AccessesReachTheMachineOncePerLine) {
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
  touch(0x999000);  // no such page
  counters_[0].insns[1] = 10;
  hardware_.drain(0, vcpus_[0].retired());
  hardware_.write_ground_truth(line);
  EXPECT_NE(line.str().find("\"llc_references\":{\"kernel\":0,\"user\":3}"), std::string::npos)
      << line.str();
}

TEST_F(GateOf, DevicesAndWatchedPagesAreSeenEveryTime) {
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
  EXPECT_EQ(data_.generation(), generation + 2);
  hardware_.drain(0, vcpus_[0].retired());
  EXPECT_EQ(bar[0x40008 / 8], 6u);
}

TEST_F(GateOf, RegistersOfAnySizeInTheBuffer) {
  vcpus_[0].set(r15, ~std::uint64_t{0});
  EXPECT_EQ(vcpus_[0].get(r15), ~std::uint64_t{0});
  EXPECT_EQ(vcpus_[0].get(r8), 0u);
}

}  // namespace
}  // namespace drfq::plugin
