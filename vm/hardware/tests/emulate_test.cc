// SPDX-License-Identifier: GPL-2.0-only
// Instructions that the plugin does itself, with a stand-in for QEMU.
#include "qemu-plugin/emulate.hh"

#include <gtest/gtest.h>

#include "qemu_fake.hh"
#include "rdt.hh"
#include "rig.hh"

namespace drfq::plugin {
namespace {

constexpr std::uint64_t kRip = 0xffffffff81000f00;

class Emulate : public testing::Test, protected Emulator::Host {
 protected:
  Emulate()
      : machine_(machine::shipped("thesis")),
        gate_(machine_, 4, std::chrono::hours(1)),
        emulator_(machine_, gate_, *this) {
    fake = FakeQemu{};
    fake.registers[rip] = kRip;
    for (unsigned c = 0; c < 4; c++) cores_.push_back(fake_core(c, &hot_[c]));
  }

  // Emulator::Host
  void go_live(std::uint64_t bar) override {
    bar_ = bar;
    live_ = true;
    gate_.start(kPsPerMs, nullptr, 0);
  }
  bool live() const override { return live_; }
  void report() override { reports_++; }
  std::uint64_t boot_tsc() const override { return 1000; }

  static Site site(Ring ring = Ring::kernel) {
    Site s{};
    s.block_offset = kRip & 0xfff;
    s.offset = 0xf08;
    s.bytes = 2;
    s.ring = ring;
    s.counted = true;
    s.left = 5;
    return s;
  }
  /// Where it goes on; 0: QEMU does the instruction.
  std::uint64_t run(Special what, const Site &s, unsigned core = 0) {
    // Its block is counted when it is entered; here it is the first instruction of one.
    if (s.counted) hot_[core].insns[static_cast<unsigned>(s.ring)] += s.left;
    try {
      emulator_.run(what, cores_[core], s);
    } catch (const Jump &j) {
      return j.to;
    }
    return 0;
  }
  std::uint64_t value() const {
    return fake.registers[rdx] << 32 | (fake.registers[rax] & 0xffffffff);
  }
  std::uint64_t rdmsr(std::uint32_t msr) {
    fake.registers[rcx] = msr;
    EXPECT_NE(run(Special::rdmsr, site()), 0u);
    return value();
  }
  std::uint64_t wrmsr(std::uint32_t msr, std::uint64_t v, const Site &s) {
    fake.registers[rcx] = msr;
    fake.registers[rax] = v & 0xffffffff;
    fake.registers[rdx] = v >> 32;
    return run(Special::wrmsr, s);
  }

  machine::Machine machine_;
  Gate gate_;
  Emulator emulator_;
  Hot hot_[4] = {};
  std::vector<Core> cores_;
  bool live_ = false;
  std::uint64_t bar_ = 0;
  unsigned reports_ = 0;
};

TEST_F(Emulate, MagicLeavesAnswerAndGoLive) {
  fake.registers[rax] = kMagicReport;
  EXPECT_EQ(run(Special::cpuid, site()), kRip + 8 + 2);
  EXPECT_EQ(fake.registers[rbx], kMagicAnswer);
  EXPECT_EQ(fake.registers[rax], 0u);
  EXPECT_EQ(reports_, 0u) << "there is nothing to tell before it is live";
  fake.registers[rax] = kMagicLive;
  fake.registers[rcx] = 0x1234000;
  run(Special::cpuid, site());
  EXPECT_EQ(bar_, 0x1234000u);
  EXPECT_EQ(fake.registers[rax], 1u);
  fake.registers[rax] = kMagicReport;
  run(Special::cpuid, site());
  EXPECT_EQ(reports_, 1u);
}

TEST_F(Emulate, OtherLeavesAreQemusAmended) {
  fake.registers[rax] = 0x10;
  fake.registers[rcx] = 3;
  EXPECT_EQ(run(Special::cpuid, site()), 0u);
  fake.registers[rax] = fake.registers[rbx] = fake.registers[rcx] = fake.registers[rdx] = 0;
  emulator_.amend_cpuid(cores_[0]);
  EXPECT_EQ(fake.registers[rax], 89u) << "bandwidth allocation, maximum less one";
  EXPECT_EQ(fake.registers[rdx], 7u);
  fake.registers[rax] = 42;
  emulator_.amend_cpuid(cores_[0]);
  EXPECT_EQ(fake.registers[rax], 42u) << "once only";
}

TEST_F(Emulate, WhatIsSkippedIsNotCounted) {
  hot_[0].insns[0] = 100;
  Site s = site();
  EXPECT_NE(run(Special::rdtsc, s), 0u);
  EXPECT_EQ(hot_[0].insns[0], 101u) << "four behind it did not run";
  s.counted = false;
  run(Special::rdtsc, s);
  EXPECT_EQ(hot_[0].insns[0], 101u) << "code from before the machine went live";
}

TEST_F(Emulate, AnInstructionOnTheBlocksSecondPage) {
  Site s = site();
  s.block_offset = 0xff8;
  s.offset = 0x004;
  s.second_page = true;
  fake.registers[rip] = 0x400ff8;
  EXPECT_EQ(run(Special::rdtsc, s), 0x401006u);
  fake.registers[rip] = 0x401004;  // QEMU has set it to the instruction already
  EXPECT_EQ(run(Special::rdtsc, s), 0x401006u);
}

TEST_F(Emulate, MsrsOfOursAndOthers) {
  EXPECT_NE(wrmsr(machine::msr::kL3Mask + 1, 0x0f, site()), 0u);
  EXPECT_EQ(rdmsr(machine::msr::kL3Mask + 1), 0x0fu);
  EXPECT_EQ(wrmsr(machine::msr::kL3Mask + 1, 0xff, site(Ring::user)), 0u) << "QEMU faults";
  EXPECT_EQ(rdmsr(machine::msr::kL3Mask + 1), 0x0fu);
  EXPECT_EQ(wrmsr(machine::msr::kL3Mask + 1, 0x05, site()), 0u) << "not contiguous";
  EXPECT_EQ(wrmsr(0xc0000080, 0x500, site()), 0u) << "EFER is QEMU's";
  EXPECT_EQ(wrmsr(0xc0000103, 3, site()), 0u) << "TSC_AUX too, but we look";
  run(Special::rdtscp, site());
  EXPECT_EQ(fake.registers[rcx], 3u);
}

TEST_F(Emulate, TimeStampsRise) {
  std::uint64_t last = 0;
  for (unsigned i = 0; i < 5; i++) {
    run(Special::rdtsc, site());
    EXPECT_GT(value(), last);
    last = value();
  }
  EXPECT_GT(rdmsr(0x10), last);
}

TEST_F(Emulate, CountersOfUserModeWantPermission) {
  fake.registers[rcx] = 0;
  EXPECT_EQ(run(Special::rdpmc, site(Ring::user)), 0u);
  fake.registers[cr4] = 1u << 8;
  EXPECT_NE(run(Special::rdpmc, site(Ring::user)), 0u);
  fake.registers[rcx] = 99;
  EXPECT_EQ(run(Special::rdpmc, site()), 0u) << "no such counter";
}

TEST_F(Emulate, CountersCountWhatRetired) {
  go_live(0);
  ASSERT_TRUE(gate_.turn(cores_[0], cores_[0].progress()));
  EXPECT_NE(wrmsr(0x186, 0x4100c0 | 1 << 17, site()), 0u) << "instructions of the kernel";
  EXPECT_NE(wrmsr(0x38f, 1, site()), 0u);
  const std::uint64_t before = rdmsr(0xc1);
  // A block of 10, of which this instruction is the sixth.
  hot_[0].insns[0] += 5;
  Site s = site();
  fake.registers[rcx] = 0xc1;
  EXPECT_NE(run(Special::rdmsr, s), 0u);
  EXPECT_EQ(value() - before, 10u - 4);
}

TEST_F(Emulate, HaltsUnlessItIsTheLastOneAwake) {
  EXPECT_EQ(run(Special::hlt, site()), 0u) << "before it is live QEMU halts";
  go_live(0);
  for (unsigned c : {0u, 1u}) ASSERT_TRUE(gate_.turn(cores_[c], cores_[c].progress()));
  EXPECT_EQ(run(Special::hlt, site(), 1), 0u) << "core 0 is awake";
  EXPECT_EQ(hot_[1].spent, kTurn) << "its first block asks for a turn";
  const Ps before = machine_.horizon();
  EXPECT_NE(run(Special::hlt, site(), 0), 0u) << "goes on as if woken";
  EXPECT_GT(machine_.horizon(), before) << "and time has passed";
}

TEST_F(Emulate, ALastHaltIsDoneAgainWhileOneIsCalled) {
  go_live(0);
  fake.memory[apic::kBase + apic::kId] = 0;
  ASSERT_TRUE(gate_.turn(cores_[0], cores_[0].progress()));
  fake.memory[apic::kBase + apic::kId] = 1u << 24;
  ASSERT_TRUE(gate_.turn(cores_[1], cores_[1].progress()));
  ASSERT_EQ(run(Special::hlt, site(), 1), 0u);
  gate_.apic_write(cores_[0], apic::kCommandHigh, 1u << 24, machine_.now(0, 0));
  gate_.apic_write(cores_[0], apic::kCommand, 0xfd, machine_.now(0, 0));
  const std::uint64_t insns = hot_[0].insns[0];
  const Ps before = machine_.horizon();
  EXPECT_EQ(run(Special::hlt, site(), 0), (kRip & ~std::uint64_t{0xfff}) | site().offset);
  EXPECT_EQ(hot_[0].insns[0], insns) << "nothing was done";
  EXPECT_LE(machine_.horizon(), before + machine_.description().fs_per_insn() / 1000);
}

TEST_F(Emulate, FlushesWhatItCanTranslate) {
  go_live(0);
  Site s = site();
  s.operand_base = rdi;
  s.operand_displacement = -64;
  fake.registers[rdi] = 0x400040;
  fake.pages[0x400] = 0x77;
  cores_[0].last_load = 1;
  EXPECT_EQ(run(Special::clflush, s), 0u) << "QEMU does it too";
  EXPECT_EQ(cores_[0].last_load, Core::kNoPage);
  cores_[0].last_load = 1;
  fake.registers[rdi] = 0x999040;
  run(Special::clflush, s);
  EXPECT_EQ(cores_[0].last_load, 1u) << "no such page: QEMU faults";
}

}  // namespace
}  // namespace drfq::plugin
