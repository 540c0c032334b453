// SPDX-License-Identifier: GPL-2.0-only
// Instructions that the plugin executes itself, on a fake QEMU.
#include "qemu-plugin/instruction_emulator.hh"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "fake_qemu.hh"
#include "guest/plugin_call_leaves.h"
#include "rdt.hh"
#include "hardware/tests/program_runner.hh"

namespace drfq::plugin {
namespace {

constexpr std::uint64_t kRip = 0xffffffff81000f00;

class InstructionEmulatorTest : public testing::Test, protected InstructionEmulator::Host {
 protected:
  InstructionEmulatorTest()
      : hardware_(hardware::shipped("thesis")),
        scheduler_(hardware_, 4, std::chrono::hours(1)),
        emulator_(hardware_, scheduler_, *this) {
    fake = FakeQemu{};
    fake.registers[rip] = kRip;
    fake.memory[apic::kBase + apic::kSpuriousInterrupt] = apic::kSoftwareEnable | 0xff;
    for (unsigned c = 0; c < 4; c++) vcpus_.push_back(fake_vcpu(c, &counters_[c]));
  }

  // InstructionEmulator::Host
  void go_live(std::uint64_t bar) override {
    bar_ = bar;
    live_ = true;
    scheduler_.start(kPsPerMs, nullptr, 0);
  }
  bool live() const override { return live_; }
  void write_ground_truth() override { ground_truth_lines_++; }
  std::uint64_t boot_tsc() const override { return 1000; }

  static InsnSite site(Ring ring = Ring::kernel) {
    InsnSite s{};
    s.block_offset = kRip & 0xfff;
    s.offset = 0xf08;
    s.bytes = 2;
    s.ring = ring;
    s.counted = true;
    s.left = 5;
    return s;
  }
  /// The address where execution continues; 0: QEMU executes the instruction.
  std::uint64_t run(SpecialInsn insn, InsnSite s, unsigned vcpu = 0) {
    s.insn = insn;
    // The block is counted when it is entered. The instruction is the first of its block here.
    if (s.counted) counters_[vcpu].insns[static_cast<unsigned>(s.ring)] += s.left;
    try {
      emulator_.run(vcpus_[vcpu], s);
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
    EXPECT_NE(run(SpecialInsn::rdmsr, site()), 0u);
    return value();
  }
  std::uint64_t wrmsr(std::uint32_t msr, std::uint64_t v, const InsnSite &s) {
    fake.registers[rcx] = msr;
    fake.registers[rax] = v & 0xffffffff;
    fake.registers[rdx] = v >> 32;
    return run(SpecialInsn::wrmsr, s);
  }

  hardware::HardwareModel hardware_;
  VcpuScheduler scheduler_;
  InstructionEmulator emulator_;
  InlineCounters counters_[4] = {};
  std::vector<Vcpu> vcpus_;
  bool live_ = false;
  std::uint64_t bar_ = 0;
  unsigned ground_truth_lines_ = 0;
};

TEST_F(InstructionEmulatorTest, PluginCallsAnswerAndStartSimulatedTime) {
  fake.registers[rax] = PLUGIN_CALL_GROUND_TRUTH;
  EXPECT_EQ(run(SpecialInsn::cpuid, site()), kRip + 8 + 2);
  EXPECT_EQ(fake.registers[rbx], PLUGIN_CALL_ANSWER);
  EXPECT_EQ(fake.registers[rax], 0u);
  EXPECT_EQ(ground_truth_lines_, 0u) << "no ground truth before the machine is live";
  fake.registers[rax] = PLUGIN_CALL_GO_LIVE;
  fake.registers[rcx] = 0x1234000;
  run(SpecialInsn::cpuid, site());
  EXPECT_EQ(bar_, 0x1234000u);
  EXPECT_EQ(fake.registers[rax], 1u);
  fake.registers[rax] = PLUGIN_CALL_GROUND_TRUTH;
  run(SpecialInsn::cpuid, site());
  EXPECT_EQ(ground_truth_lines_, 1u);
}

TEST_F(InstructionEmulatorTest, OtherCpuidLeavesAreQemusAnswerAmendedOnce) {
  fake.registers[rax] = 0x10;
  fake.registers[rcx] = 3;
  EXPECT_EQ(run(SpecialInsn::cpuid, site()), 0u);
  fake.registers[rax] = fake.registers[rbx] = fake.registers[rcx] = fake.registers[rdx] = 0;
  emulator_.amend_cpuid(vcpus_[0]);
  EXPECT_EQ(fake.registers[rax], 89u) << "greatest MBA delay, minus one";
  EXPECT_EQ(fake.registers[rdx], 7u);
  fake.registers[rax] = 42;
  emulator_.amend_cpuid(vcpus_[0]);
  EXPECT_EQ(fake.registers[rax], 42u) << "amended only once";
}

TEST_F(InstructionEmulatorTest, InstructionsAfterASkippedOneAreNotCounted) {
  counters_[0].insns[0] = 100;
  InsnSite s = site();
  EXPECT_NE(run(SpecialInsn::rdtsc, s), 0u);
  EXPECT_EQ(counters_[0].insns[0], 101u) << "the four after it did not retire";
  s.counted = false;
  run(SpecialInsn::rdtsc, s);
  EXPECT_EQ(counters_[0].insns[0], 101u) << "code translated before the machine went live";
}

TEST_F(InstructionEmulatorTest, AnInstructionOnTheSecondPageOfItsBlockHasTheRightAddress) {
  InsnSite s = site();
  s.block_offset = 0xff8;
  s.offset = 0x004;
  s.on_second_page = true;
  fake.registers[rip] = 0x400ff8;
  EXPECT_EQ(run(SpecialInsn::rdtsc, s), 0x401006u);
  fake.registers[rip] = 0x401004;  // QEMU may already have set RIP to the instruction
  EXPECT_EQ(run(SpecialInsn::rdtsc, s), 0x401006u);
}

TEST_F(InstructionEmulatorTest, RdtMsrsAreHandledAndOthersAreLeftToQemu) {
  EXPECT_NE(wrmsr(hardware::msr::kL3Mask + 1, 0x0f, site()), 0u);
  EXPECT_EQ(rdmsr(hardware::msr::kL3Mask + 1), 0x0fu);
  EXPECT_EQ(wrmsr(hardware::msr::kL3Mask + 1, 0xff, site(Ring::user)), 0u) << "QEMU faults";
  EXPECT_EQ(rdmsr(hardware::msr::kL3Mask + 1), 0x0fu);
  EXPECT_EQ(wrmsr(hardware::msr::kL3Mask + 1, 0x05, site()), 0u) << "not contiguous";
  EXPECT_EQ(wrmsr(0xc0000080, 0x500, site()), 0u) << "QEMU handles EFER";
  EXPECT_EQ(wrmsr(0xc0000103, 3, site()), 0u) << "QEMU handles TSC_AUX, the plugin copies it";
  run(SpecialInsn::rdtscp, site());
  EXPECT_EQ(fake.registers[rcx], 3u);
}

TEST_F(InstructionEmulatorTest, EachTimeStampIsGreaterThanTheLast) {
  std::uint64_t last = 0;
  for (unsigned i = 0; i < 5; i++) {
    run(SpecialInsn::rdtsc, site());
    EXPECT_GT(value(), last);
    last = value();
  }
  EXPECT_GT(rdmsr(0x10), last);
}

TEST_F(InstructionEmulatorTest, RdtscInUserModeIsLeftToQemuUnderCr4Tsd) {
  fake.registers[cr4] = 1u << 2;
  for (const SpecialInsn insn : {SpecialInsn::rdtsc, SpecialInsn::rdtscp}) {
    EXPECT_EQ(run(insn, site(Ring::user)), 0u) << "QEMU faults";
    EXPECT_NE(run(insn, site()), 0u);
  }
  fake.registers[cr4] = 0;
  EXPECT_NE(run(SpecialInsn::rdtsc, site(Ring::user)), 0u);
}

TEST_F(InstructionEmulatorTest, RdpmcInUserModeNeedsCr4Pce) {
  fake.registers[rcx] = 0;
  EXPECT_EQ(run(SpecialInsn::rdpmc, site(Ring::user)), 0u);
  fake.registers[cr4] = 1u << 8;
  EXPECT_NE(run(SpecialInsn::rdpmc, site(Ring::user)), 0u);
  fake.registers[rcx] = 99;
  EXPECT_EQ(run(SpecialInsn::rdpmc, site()), 0u) << "no such counter";
}

TEST_F(InstructionEmulatorTest, ACounterCountsRetiredInstructionsOnly) {
  go_live(0);
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  EXPECT_NE(wrmsr(0x186, 0x4100c0 | 1 << 17, site()), 0u) << "instructions of the kernel";
  EXPECT_NE(wrmsr(0x38f, 1, site()), 0u);
  const std::uint64_t before = rdmsr(0xc1);
  // The instruction is the sixth of a block of 10.
  counters_[0].insns[0] += 5;
  InsnSite s = site();
  fake.registers[rcx] = 0xc1;
  EXPECT_NE(run(SpecialInsn::rdmsr, s), 0u);
  EXPECT_EQ(value() - before, 10u - 4);
}

TEST_F(InstructionEmulatorTest, AHaltIsSkippedByTheLastVcpuAwake) {
  EXPECT_EQ(run(SpecialInsn::hlt, site()), 0u) << "QEMU halts before the machine is live";
  go_live(0);
  for (unsigned c : {0u, 1u}) ASSERT_TRUE(scheduler_.take_turn(vcpus_[c], vcpus_[c].retired()));
  EXPECT_EQ(run(SpecialInsn::hlt, site(), 1), 0u) << "vcpu 0 is awake";
  EXPECT_EQ(counters_[1].turn_counter, kTurnThreshold) << "its next block asks for a turn";
  const Ps before = hardware_.slowest_clock();
  EXPECT_NE(run(SpecialInsn::hlt, site(), 0), 0u) << "it continues";
  EXPECT_GT(hardware_.slowest_clock(), before) << "time has advanced";
}

TEST_F(InstructionEmulatorTest, AHaltOfTheLastVcpuAwakeIsRetriedWhileAWakeUpIsPending) {
  go_live(0);
  fake.memory[apic::kBase + apic::kId] = 0;
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  fake.memory[apic::kBase + apic::kId] = 1u << 24;
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[1], vcpus_[1].retired()));
  ASSERT_EQ(run(SpecialInsn::hlt, site(), 1), 0u);
  scheduler_.apic_write(vcpus_[0], apic::kCommandHigh, 1u << 24, hardware_.now(0, 0));
  scheduler_.apic_write(vcpus_[0], apic::kCommand, 0xfd, hardware_.now(0, 0));
  const std::uint64_t insns = counters_[0].insns[0];
  const Ps before = hardware_.slowest_clock();
  EXPECT_EQ(run(SpecialInsn::hlt, site(), 0), (kRip & ~std::uint64_t{0xfff}) | site().offset);
  EXPECT_EQ(counters_[0].insns[0], insns) << "it did not retire";
  EXPECT_LE(hardware_.slowest_clock(), before + hardware_.description().fs_per_insn() / 1000);
}

TEST_F(InstructionEmulatorTest, APauseTakesCyclesOfItsOwnRing) {
  go_live(0);
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  InsnSite s = site(Ring::user);
  s.left = 1;
  for (unsigned i = 0; i < 10; i++) EXPECT_EQ(run(SpecialInsn::pause, s), 0u);
  s.ring = Ring::kernel;
  for (unsigned i = 0; i < 3; i++) EXPECT_EQ(run(SpecialInsn::pause, s), 0u);
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  std::ostringstream line;
  scheduler_.write_ground_truth(line);
  const double ipc = hardware_.description().insns_per_cycle;
  const auto cycles = [ipc](unsigned n) {
    return std::to_string(static_cast<unsigned>(n * (kPauseInsns + 1) / ipc));
  };
  const std::string expected =
      "\"cycles\":{\"kernel\":" + cycles(3) + ",\"user\":" + cycles(10) + "}";
  EXPECT_NE(line.str().find(expected), std::string::npos) << expected << " in " << line.str();
}

TEST_F(InstructionEmulatorTest, ACounterIncludesThePausesBeforeItIsRead) {
  go_live(0);
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  EXPECT_NE(wrmsr(hardware::msr::kFixedCtrCtrl, 0x20, site()), 0u) << "cycles of user mode";
  EXPECT_NE(wrmsr(hardware::msr::kGlobalCtrl, std::uint64_t{1} << 33, site()), 0u);
  InsnSite s = site(Ring::user);
  s.left = 1;
  for (unsigned i = 0; i < 10; i++) EXPECT_EQ(run(SpecialInsn::pause, s), 0u);
  for (unsigned i = 0; i < 2; i++) {
    fake.registers[rcx] = 1u << 30 | 1;
    EXPECT_NE(run(SpecialInsn::rdpmc, site()), 0u);
    EXPECT_EQ(value(), 10 * (kPauseInsns + 1) / hardware_.description().insns_per_cycle);
  }
}

TEST_F(InstructionEmulatorTest, ATimeStampIncludesThePausesBeforeIt) {
  go_live(0);
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  const auto time = [this] {
    run(SpecialInsn::rdtsc, site());
    return value();
  };
  InsnSite s = site();
  s.left = 1;
  const std::uint64_t before = time();
  for (unsigned i = 0; i < 10; i++) run(SpecialInsn::pause, s);
  const std::uint64_t insns = 10 * (kPauseInsns + 1) + 1;
  const std::uint64_t expected = insns * hardware_.description().fs_per_insn() / 1'000'000;
  EXPECT_EQ(time() - before, expected) << "at 1 GHz";
  ASSERT_TRUE(scheduler_.take_turn(vcpus_[0], vcpus_[0].retired()));
  const std::uint64_t one = hardware_.description().fs_per_insn() / 1'000'000;
  EXPECT_EQ(time() - before, expected + one) << "the turn adds the pauses once";
}

TEST_F(InstructionEmulatorTest, ClflushActsIfTheAddressIsMapped) {
  go_live(0);
  InsnSite s = site();
  s.operand = {rdi, -64};
  fake.registers[rdi] = 0x400040;
  fake.pages[0x400] = 0x77;
  vcpus_[0].last_line[0] = 1;
  EXPECT_EQ(run(SpecialInsn::clflush, s), 0u) << "QEMU executes it, too";
  EXPECT_EQ(vcpus_[0].last_line[0], Vcpu::kNoPage);
  vcpus_[0].last_line[0] = 1;
  s.operand = {rbx, 64, rcx, 3};
  fake.registers[rbx] = 0x3f0000;
  fake.registers[rcx] = 0x2000;
  run(SpecialInsn::clflush, s);
  EXPECT_EQ(vcpus_[0].last_line[0], Vcpu::kNoPage) << "64(rbx, rcx, 8)";
  vcpus_[0].last_line[0] = 1;
  fake.pages[kRip >> 12] = 0x78;
  s.operand = {Operand::kNone, 16, Operand::kNone, 0, true};
  run(SpecialInsn::clflush, s);
  EXPECT_EQ(vcpus_[0].last_line[0], Vcpu::kNoPage) << "16(rip)";
  s.operand = {rdi, -64};
  vcpus_[0].last_line[0] = 1;
  fake.registers[rdi] = 0x999040;
  run(SpecialInsn::clflush, s);
  EXPECT_EQ(vcpus_[0].last_line[0], 1u) << "no such page: QEMU faults";
}

}  // namespace
}  // namespace drfq::plugin
