// SPDX-License-Identifier: GPL-2.0-only
// Turns, timers and data accesses of the plugin, with a stand-in for QEMU.
#include "qemu-plugin/gate.hh"

#include <gtest/gtest.h>

#include "qemu-plugin/memory.hh"
#include "qemu_fake.hh"
#include "rig.hh"

namespace drfq::plugin {
namespace {

TEST(Timer, CountsInDividedTicks) {
  Timer t;
  EXPECT_EQ(t.due(), kNever);
  t.write_lvt(0xec);
  t.write_divide(0xb);  // by 1
  t.start(100, 5);
  EXPECT_EQ(t.due(), 5 + 100 * Timer::kTick);
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
    EXPECT_EQ(t.due(), 10 * by * Timer::kTick) << code;
  }
  t.start(0, 7);
  EXPECT_EQ(t.due(), kNever) << "0 stops it";
}

TEST(Timer, PeriodicMaskedAndReservedVectors) {
  Timer t;
  t.write_divide(0xb);
  t.write_lvt(1u << 17 | 0x30);
  t.start(10, 0);
  EXPECT_TRUE(t.fire());
  EXPECT_EQ(t.due(), 20 * Timer::kTick);
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
  static machine::Description plain() {
    machine::Description d = machine::shipped("thesis");
    d.prefetch.kind = machine::PrefetchShape::Kind::none;
    return d;
  }
  /// No test shall depend on how long the host takes.
  explicit GateOf(std::chrono::milliseconds call_patience = std::chrono::hours(1))
      : machine_(plain()), gate_(machine_, 4, call_patience), data_(machine_, gate_) {
    fake = FakeQemu{};
    for (unsigned c = 0; c < 4; c++) cores_.push_back(fake_core(c, &hot_[c]));
    fake.memory[apic::kBase + apic::kId] = 2u << 24;
    fake.memory[apic::kBase + apic::kLvtTimer] = 1u << 16;
    gate_.start(kPsPerMs, nullptr, 0);
  }
  bool turn(unsigned c) { return gate_.turn(cores_[c], cores_[c].progress()); }
  /// Runs a core until a time; it must be the only one awake.
  void run_to(unsigned c, Ps to) {
    for (Progress p = cores_[c].progress(); machine_.now(c, p.all()) < to;
         p = cores_[c].progress()) {
      hot_[c].insns[0] += kTurn - hot_[c].spent;
      turn(c);
    }
  }
  /// Core 1 halts, and core 0 is a quantum and more ahead of it when it sends an interrupt.
  void halt_and_call() {
    turn(0);
    fake.memory[apic::kBase + apic::kId] = 1u << 24;
    turn(1);
    ASSERT_EQ(gate_.halt(cores_[1], cores_[1].progress()), Gate::Halt::sleep);
    run_to(0, 2 * kPsPerMs);
    apic(0, apic::kCommandHigh, 1u << 24);
    apic(0, apic::kCommand, 0xfd);
  }
  void apic(unsigned c, std::uint32_t offset, std::uint32_t value) {
    gate_.apic_write(cores_[c], offset, value, machine_.now(c, cores_[c].progress().all()));
  }

  machine::Machine machine_;
  Gate gate_;
  DataPath data_;
  Hot hot_[4] = {};
  std::vector<Core> cores_;
};

TEST_F(GateOf, AChunkIsAQuantum) {
  turn(0);
  const machine::Description &d = machine_.description();
  EXPECT_EQ(kTurn - hot_[0].spent, d.quantum * 1000 / d.fs_per_insn());
}

TEST_F(GateOf, ALoneCoreNeedNotWaitAndTwoKeepStep) {
  turn(0);
  run_to(0, 2 * kPsPerMs);
  turn(1);  // wakes at the horizon
  const Ps far = machine_.now(0, hot_[0].insns[0]);
  EXPECT_GE(machine_.now(1, 0), far - machine_.description().quantum);
  hot_[0].insns[0] += 100000;
  hot_[0].spent = kTurn;
  EXPECT_FALSE(turn(0));
  EXPECT_EQ(hot_[0].spent, kTurn) << "patience ended: it asks again before it does anything";
  EXPECT_FALSE(gate_.catch_up(cores_[0], cores_[0].progress()));
  hot_[1].insns[0] += 200000;
  turn(1);
  EXPECT_TRUE(gate_.catch_up(cores_[0], cores_[0].progress()));
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
  EXPECT_EQ(hot_[0].spent, kTurn) << "the chunk that runs may be too long";
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
  run_to(0, machine_.horizon() + 100'000 * Timer::kTick);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].second, 0x40u);
}

TEST_F(GateOf, TheLastOneAwakeServesSleepersTimers) {
  turn(0);
  turn(1);
  apic(1, apic::kLvtTimer, 0x33);
  apic(1, apic::kDivide, 0xb);
  apic(1, apic::kInitialCount, 100'000);
  EXPECT_EQ(gate_.halt(cores_[1], cores_[1].progress()), Gate::Halt::sleep);
  fake.writes.clear();
  run_to(0, kPsPerMs + 200'000 * Timer::kTick);
  ASSERT_EQ(fake.writes.size(), 1u);
  EXPECT_EQ(fake.writes[0].second, 0x33u);
}

TEST_F(GateOf, WhoIsCalledIsWaitedFor) {
  halt_and_call();
  const Ps called = machine_.now(0, hot_[0].insns[0]);
  hot_[0].insns[0] += 100000;
  hot_[0].spent = kTurn;
  EXPECT_FALSE(turn(0)) << "its clock stands where it was called";
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(machine_.now(1, 0), called);
  hot_[1].insns[0] += 200000;
  hot_[1].spent = kTurn;
  turn(1);
  EXPECT_TRUE(turn(0));
}

TEST_F(GateOf, TheLastOneAwakeDoesNotPassTimeWhileOneIsCalled) {
  halt_and_call();
  const Ps called = machine_.now(0, hot_[0].insns[0]);
  EXPECT_EQ(gate_.halt(cores_[0], cores_[0].progress()), Gate::Halt::again);
  EXPECT_EQ(machine_.now(0, hot_[0].insns[0]), called);
  EXPECT_TRUE(turn(1));
  EXPECT_EQ(gate_.halt(cores_[0], cores_[0].progress()), Gate::Halt::sleep)
      << "the other one is there";
}

class ImpatientGateOf : public GateOf {
 protected:
  ImpatientGateOf() : GateOf(std::chrono::milliseconds(0)) {}
};

TEST_F(ImpatientGateOf, WhoDoesNotComeIsGivenUp) {
  halt_and_call();
  hot_[0].insns[0] += 100000;
  hot_[0].spent = kTurn;
  EXPECT_FALSE(turn(0)) << "it was waited for";
  EXPECT_TRUE(turn(0));
  const Ps ahead = machine_.now(0, hot_[0].insns[0]);
  EXPECT_TRUE(turn(1)) << "after all";
  EXPECT_GE(machine_.now(1, 0), ahead - machine_.description().quantum);
}

TEST_F(GateOf, AccessesReachTheMachineOncePerLine) {
  turn(0);
  fake.pages[0x400] = 0x1000;
  std::stringstream line;
  const auto touch = [&](std::uint64_t address) {
    data_.access(cores_[0], info_of(8), address, machine::Use::load, 1, Ring::user);
  };
  touch(0x400000);
  touch(0x400008);
  touch(0x400010);
  touch(0x40007c);  // spans two lines
  touch(0x999000);  // no such page
  hot_[0].insns[1] = 10;
  machine_.settle(0, cores_[0].progress());
  machine_.report(line);
  EXPECT_NE(line.str().find("\"llc_references\":{\"kernel\":0,\"user\":3}"), std::string::npos)
      << line.str();
}

TEST_F(GateOf, DevicesAndWatchedPagesAreSeenEveryTime) {
  turn(0);
  std::vector<std::uint64_t> bar(machine::Machine::kBarBytes / 8);
  machine_.attach_bar(bar.data(), std::uint64_t{0x5000} << 12);
  fake.pages[0x700] = apic::kBase >> 12;
  fake.pages[0x701] = 0x5000 + (0x40000 >> 12);  // virtualTime of cores in the controller
  fake.io = apic::kBase >> 12;
  const auto store = [&](std::uint64_t address, std::uint64_t value, unsigned bytes) {
    fake.value = value;
    data_.access(cores_[0], info_of(bytes), address, machine::Use::store, 1, Ring::kernel);
  };
  store(0x700000 + apic::kInitialCount, 7, 4);
  store(0x700000 + apic::kInitialCount, 7, 4);
  EXPECT_EQ(fake.writes.size(), 2u) << "QEMU's timer was stopped twice";
  const std::uint32_t generation = data_.generation();
  store(0x701008, 5, 8);
  store(0x701008, 6, 8);
  EXPECT_EQ(data_.generation(), generation + 2);
  machine_.settle(0, cores_[0].progress());
  EXPECT_EQ(bar[0x40008 / 8], 6u);
}

TEST_F(GateOf, RegistersOfAnySizeInTheBuffer) {
  cores_[0].set(r15, ~std::uint64_t{0});
  EXPECT_EQ(cores_[0].get(r15), ~std::uint64_t{0});
  EXPECT_EQ(cores_[0].get(r8), 0u);
}

}  // namespace
}  // namespace drfq::plugin
