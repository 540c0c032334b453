// SPDX-License-Identifier: GPL-2.0-only
// The BAR and the mailbox page, through the whole hardware model.
#include "pci_registers.hh"

#include <gtest/gtest.h>

#include <random>

#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kBar = 0xfe000000, kMailboxPage = 0x7000;

class PciRegistersTest : public ::testing::Test {
 protected:
  PciRegistersTest() : page(HardwareModel::kBarBytes / 8) { m().attach_bar(page.data(), kBar); }

  HardwareModel &m() { return runner.hardware; }
  std::uint64_t &at(std::uint64_t offset) { return page[offset / 8]; }

  /// As in a guest: the memory changes first, then the model is told.
  void store(std::uint64_t offset, std::uint64_t value) {
    at(offset) = value;
    m().stored(0, runner.insns(0), kBar + offset, 8, value);
    m().drain(0, runner.retired(0));
  }
  std::uint64_t load(std::uint64_t offset) {
    const std::uint64_t v = at(offset);
    m().loaded(0, runner.insns(0), kBar + offset, 8, v);
    return v;
  }

  std::vector<std::uint64_t> page;
  ProgramRunner runner{shipped("thesis")};
};

TEST_F(PciRegistersTest, IdentityRegistersHoldTheirValues) {
  EXPECT_EQ(load(mmio::kId), mmio::kIdValue);
  EXPECT_EQ(load(mmio::kVersion), mmio::kVersionValue);
  EXPECT_EQ(load(mmio::kPids), kPids);
  EXPECT_EQ(load(mmio::kCores), 4u);
}

TEST_F(PciRegistersTest, OnlyTheBarAndTheMailboxPageAreWatched) {
  EXPECT_TRUE(m().watches(kBar));
  EXPECT_TRUE(m().watches(kBar + HardwareModel::kBarBytes - 1));
  EXPECT_FALSE(m().watches(kBar + HardwareModel::kBarBytes));
  EXPECT_FALSE(m().watches(kBar - 1));
  EXPECT_FALSE(m().watches(0));
  EXPECT_FALSE(m().watches(kMailboxPage));
  store(PciRegisters::kMailboxAddress, kMailboxPage);
  EXPECT_TRUE(m().watches(kMailboxPage + 4095));
  EXPECT_FALSE(m().watches(kMailboxPage + 4096));
  store(PciRegisters::kMailboxAddress, 0);
  EXPECT_FALSE(m().watches(kMailboxPage));
  m().attach_bar(nullptr, 0);
  EXPECT_FALSE(m().watches(kBar));
  EXPECT_FALSE(m().watches(0));
}

TEST_F(PciRegistersTest, AnInvalidStoreIsUndone) {
  store(mmio::kId, 1);
  EXPECT_EQ(at(mmio::kId), mmio::kIdValue);
  store(mmio::kTraffic + 8, 1);
  EXPECT_EQ(at(mmio::kTraffic + 8), 0u);
  store(mmio::kVtimePid, 5);
  EXPECT_EQ(at(mmio::kVtimePid), 0u) << "pid 0 has no virtual time";
  store(mmio::kPidCore, 8192);
  EXPECT_EQ(at(mmio::kPidCore), 0u) << "no such pid";
  store(mmio::kPidCore + 8 * 4, 1);
  EXPECT_EQ(at(mmio::kPidCore + 8 * 4), 0u) << "no such core";
  store(PciRegisters::kMailboxAddress, 12);
  EXPECT_EQ(at(PciRegisters::kMailboxAddress), 0u) << "not aligned";
  at(mmio::kVersion) = 77;
  m().stored(0, 0, kBar + mmio::kVersion + 4, 4, 0);
  EXPECT_EQ(at(mmio::kVersion), mmio::kVersionValue);
  store(mmio::kVtimePid + 8, 9);
  EXPECT_EQ(at(mmio::kVtimePid + 8), 9u);
}

TEST_F(PciRegistersTest, AReadOfTrafficClearsTheValueThatWasRead) {
  store(mmio::kPidCore, 7);
  runner.put(0, streamer(1 << 28, 16 << 20, AccessKind::load));
  std::uint64_t sum = 0;
  std::mt19937 rng(2);
  for (int i = 1; i <= 50; i++) {
    runner.run_to(static_cast<Ps>(i) * 100 * kPsPerUs);
    // Simulated time may advance between the guest's load and its report.
    const std::uint64_t seen = at(mmio::kTraffic + 8 * 7);
    EXPECT_EQ(at(mmio::kTrafficPeek + 8 * 7), seen);
    if (rng() % 2) runner.run_to(static_cast<Ps>(i) * 100 * kPsPerUs + 40 * kPsPerUs);
    m().loaded(0, runner.insns(0), kBar + mmio::kTraffic + 8 * 7, 8, seen);
    sum += seen;
  }
  sum += load(mmio::kTraffic + 8 * 7);
  EXPECT_EQ(at(mmio::kTraffic + 8 * 7), 0u);
  std::stringstream ground_truth;
  m().write_ground_truth(ground_truth);
  EXPECT_NE(ground_truth.str().find("{\"pid\":7,\"read_bytes\":" + std::to_string(sum) + ","),
            std::string::npos)
      << sum << " in " << ground_truth.str();
}

TEST_F(PciRegistersTest, MailboxStoresWriteRegistersInProgramOrder) {
  store(PciRegisters::kMailboxAddress, kMailboxPage);
  runner.put(0, streamer(1 << 28, 16 << 20, AccessKind::load));
  const auto mailbox_store = [this](std::uint64_t offset, std::uint64_t v) {
    m().stored(0, runner.insns(0), kMailboxPage + offset, 8, v);
  };
  for (std::uint64_t pid = 1; pid <= 3; pid++) {
    mailbox_store(0, pid);
    runner.run_to(pid * kPsPerMs);
  }
  mailbox_store(0, 0);
  mailbox_store(8, 9000);     // no such pid
  mailbox_store(8 * 200, 1);  // no such core
  runner.run_to(4 * kPsPerMs);
  for (std::uint64_t pid = 1; pid <= 3; pid++)
    EXPECT_GT(at(mmio::kTraffic + 8 * pid), 50000u) << pid;
  EXPECT_GT(at(mmio::kTraffic), 50000u) << "pid 0, in the last millisecond";
}

TEST(PciRegisters, TheCoreOfLowestVirtualTimeGetsMostBandwidth) {
  MachineDescription d = shipped("thesis");
  d.memory.controller.policy = Policy::lvtf;
  std::uint64_t bytes[2][5];
  for (unsigned favoured : {0u, 1u}) {
    ProgramRunner runner(d);
    std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
    runner.hardware.attach_bar(page.data(), kBar);
    for (unsigned c = 0; c < 4; c++) {
      runner.put(c,
                 copier(std::uint64_t{c} << 28, (std::uint64_t{c} << 28) + (64 << 20), 16 << 20));
      runner.hardware.stored(c, 0, kBar + mmio::kPidCore + 8 * c, 8, c + 1);
      runner.hardware.stored(c, 0, kBar + mmio::kVtimeCore + 8 * c, 8, c == favoured ? 1 : 100);
    }
    runner.run_to(30 * kPsPerMs);
    for (unsigned c = 0; c < 4; c++) bytes[favoured][c] = page[(mmio::kTraffic + 8 * (c + 1)) / 8];
    for (unsigned c = 0; c < 4; c++) {
      if (c != favoured) {
        EXPECT_GT(bytes[favoured][favoured], 2 * bytes[favoured][c]);
      }
    }
  }
}

}  // namespace
}  // namespace drfq::hardware
