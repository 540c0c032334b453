// SPDX-License-Identifier: GPL-2.0-only
// The BAR and the mailbox, through the whole hardware model.
#include "pci_registers.hh"

#include <gtest/gtest.h>

#include <random>

#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kBar = 0xfe000000, kPage = 0x7000;

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

TEST_F(PciRegistersTest, OnlyTheBarAndTheMailboxAreWatched) {
  EXPECT_TRUE(m().watches(kBar));
  EXPECT_TRUE(m().watches(kBar + HardwareModel::kBarBytes - 1));
  EXPECT_FALSE(m().watches(kBar + HardwareModel::kBarBytes));
  EXPECT_FALSE(m().watches(kBar - 1));
  EXPECT_FALSE(m().watches(0));
  EXPECT_FALSE(m().watches(kPage));
  store(mailbox::kAddress, kPage);
  EXPECT_TRUE(m().watches(kPage + 4095));
  EXPECT_FALSE(m().watches(kPage + 4096));
  store(mailbox::kAddress, 0);
  EXPECT_FALSE(m().watches(kPage));
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
  store(mailbox::kAddress, 12);
  EXPECT_EQ(at(mailbox::kAddress), 0u) << "not aligned";
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

TEST_F(PciRegistersTest, WhatIsChargedAfterTwoCoresLoadedTheSameValueStays) {
  const std::uint64_t traffic = mmio::kTraffic + 8 * 7;
  store(mmio::kPidCore, 7);
  runner.put(0, streamer(1 << 28, 16 << 20, AccessKind::load));
  runner.run_to(kPsPerMs);
  const std::uint64_t seen = at(traffic);
  runner.run_to(kPsPerMs * 14 / 10);
  const std::uint64_t since = at(traffic) - seen;
  ASSERT_GT(since, 0u);
  ASSERT_LT(since, seen);
  for (const unsigned core : {0u, 1u}) {
    m().loaded(core, runner.insns(core), kBar + traffic, 8, seen);
    EXPECT_EQ(at(traffic), since) << core;
  }
}

class MailboxTest : public PciRegistersTest {
 protected:
  MailboxTest() { store(mailbox::kAddress, kPage); }

  void store_word(unsigned core, std::uint64_t word, std::uint64_t value, unsigned bytes = 8) {
    m().stored(0, runner.insns(0), kPage + core * mailbox::kLabelBytes + word, bytes, value);
  }
  std::uint64_t pid_core(unsigned core) { return at(mmio::kPidCore + 8 * core); }
};

TEST_F(MailboxTest, StoresToALabelWriteRegistersInProgramOrder) {
  runner.put(0, streamer(1 << 28, 16 << 20, AccessKind::load));
  store_word(0, mailbox::kLabelValid, mmio::kIdValue);
  for (std::uint64_t pid = 1; pid <= 3; pid++) {
    store_word(0, mailbox::kLabelPid, pid);
    runner.run_to(pid * kPsPerMs);
  }
  store_word(0, mailbox::kLabelPid, 0);
  runner.run_to(4 * kPsPerMs);
  std::uint64_t moved[4];
  for (std::uint64_t pid = 0; pid <= 3; pid++) moved[pid] = at(mmio::kTraffic + 8 * pid);
  EXPECT_GT(moved[0], 50000u) << "pid 0, in the last millisecond";
  for (std::uint64_t pid = 1; pid <= 3; pid++) EXPECT_GT(moved[pid], 50000u) << pid;
}

TEST_F(MailboxTest, ALabelThatIsNotValidCountsAsPid0) {
  store_word(1, mailbox::kLabelPid, 7);
  store_word(1, mailbox::kLabelVtime, 5);
  EXPECT_EQ(pid_core(1), 0u) << "nothing says that it is a label";
  store_word(1, mailbox::kLabelValid, mmio::kIdValue);
  EXPECT_EQ(pid_core(1), 7u);
  EXPECT_EQ(at(mmio::kVtimeCore + 8), 5u);
  store_word(1, mailbox::kLabelPid, kPids);
  EXPECT_EQ(pid_core(1), 0u) << "no such pid";
  store_word(1, mailbox::kLabelPid, kPids - 1);
  EXPECT_EQ(pid_core(1), kPids - 1);
  store_word(1, mailbox::kLabelVtime, 1, 4);
  EXPECT_EQ(pid_core(1), 0u) << "a store of 4 bytes";
  store_word(1, mailbox::kLabelValid, mmio::kIdValue);
  store_word(1, mailbox::kLabelPid + 3, 1);
  EXPECT_EQ(pid_core(1), 0u) << "a store that is not aligned";
  store_word(1, mailbox::kLabelValid, mmio::kIdValue);
  store_word(1, mailbox::kLabelVtime + 8, 9);
  EXPECT_EQ(pid_core(1), kPids - 1) << "the rest of a label has no meaning";
  store_word(1, mailbox::kLabelValid, 0);
  EXPECT_EQ(pid_core(1), 0u);
  EXPECT_EQ(at(mmio::kVtimeCore + 8), 0u) << "no core keeps a rank from a former scheduler";
}

TEST_F(MailboxTest, LabelsOfCoresThatDoNotExistAreIgnored) {
  for (unsigned core = 4; core < 64; core++)
    for (std::uint64_t word : {mailbox::kLabelValid, mailbox::kLabelPid, mailbox::kLabelVtime})
      store_word(core, word, ~std::uint64_t{0});
  m().drain(0, runner.retired(0));
  for (unsigned core = 0; core < 4; core++) EXPECT_EQ(pid_core(core), 0u);
}

TEST_F(MailboxTest, AHostileAddressIsRefusedOrWatchesNothing) {
  for (std::uint64_t bad : {std::uint64_t{1}, kPage + 8, kPage + 2048, ~std::uint64_t{0}}) {
    store(mailbox::kAddress, bad);
    EXPECT_EQ(at(mailbox::kAddress), kPage) << std::hex << bad;
  }
  // Beyond all memory, at the end of the address space, and on the BAR.
  for (std::uint64_t odd : {std::uint64_t{1} << 52, ~std::uint64_t{4095}, kBar}) {
    store(mailbox::kAddress, odd);
    EXPECT_EQ(at(mailbox::kAddress), odd);
    EXPECT_FALSE(m().watches(kPage)) << std::hex << odd;
    EXPECT_FALSE(m().watches(0)) << std::hex << odd;
    store(mmio::kPidCore, 3);
    EXPECT_EQ(pid_core(0), 3u) << "the BAR works as before";
    store(mmio::kPidCore, 0);
  }
  store(mailbox::kAddress + 8, kPage);
  EXPECT_EQ(at(mailbox::kAddress + 8), 0u) << "four cores need one page";
}

TEST_F(MailboxTest, AMovedPageKeepsNoLabelOfTheFormerOne) {
  store_word(2, mailbox::kLabelValid, mmio::kIdValue);
  store_word(2, mailbox::kLabelPid, 9);
  store_word(2, mailbox::kLabelVtime, 7);
  EXPECT_EQ(pid_core(2), 9u);
  store(mmio::kPidCore + 8, 5);
  store(mailbox::kAddress, 0);
  EXPECT_EQ(pid_core(2), 0u);
  EXPECT_EQ(at(mmio::kVtimeCore + 8 * 2), 0u);
  EXPECT_EQ(pid_core(1), 5u) << "it came from no label";
  store(mailbox::kAddress, kPage);
  store_word(2, mailbox::kLabelPid, 9);
  EXPECT_EQ(pid_core(2), 0u);
}

TEST_F(MailboxTest, APageThatIsAnnouncedAgainKeepsItsLabels) {
  store_word(2, mailbox::kLabelValid, mmio::kIdValue);
  store_word(2, mailbox::kLabelVtime, 7);
  store_word(2, mailbox::kLabelPid, 9);
  store(mailbox::kAddress, kPage);
  EXPECT_EQ(at(mailbox::kAddress), kPage);
  EXPECT_EQ(pid_core(2), 9u);
  EXPECT_EQ(at(mmio::kVtimeCore + 8 * 2), 7u);
  store_word(2, mailbox::kLabelPid, 8);
  EXPECT_EQ(pid_core(2), 8u);
  EXPECT_EQ(at(mmio::kVtimeCore + 8 * 2), 7u);
}

TEST_F(MailboxTest, ALabelWithoutAPidHasNoVirtualTime) {
  store_word(1, mailbox::kLabelValid, mmio::kIdValue);
  store_word(1, mailbox::kLabelVtime, 5);
  store_word(1, mailbox::kLabelPid, 7);
  EXPECT_EQ(at(mmio::kVtimeCore + 8), 5u);
  for (const std::uint64_t none : {std::uint64_t{0}, std::uint64_t{kPids}}) {
    store_word(1, mailbox::kLabelPid, none);
    EXPECT_EQ(pid_core(1), 0u);
    EXPECT_EQ(at(mmio::kVtimeCore + 8), 0u) << "what the kernel does there has no task's rank";
    store_word(1, mailbox::kLabelVtime, 6);
    EXPECT_EQ(at(mmio::kVtimeCore + 8), 0u);
    store_word(1, mailbox::kLabelPid, 8);
    EXPECT_EQ(pid_core(1), 8u);
    EXPECT_EQ(at(mmio::kVtimeCore + 8), 6u);
  }
}

TEST(PciRegisters, ADeviceWithoutAMailboxSaysSoAndTakesNoAddress) {
  MachineDescription d = shipped("thesis");
  for (const bool has : {true, false}) {
    d.mailbox = has;
    ProgramRunner runner(d);
    std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
    runner.hardware.attach_bar(page.data(), kBar);
    EXPECT_EQ(page[mailbox::kFeatures / 8] >> mailbox::kFeatureBit & 1, has);
    page[mailbox::kAddress / 8] = kPage;
    EXPECT_EQ(runner.hardware.stored(0, 0, kBar + mailbox::kAddress, 8, kPage), has);
    EXPECT_EQ(page[mailbox::kAddress / 8], has ? kPage : 0);
    EXPECT_EQ(runner.hardware.watches(kPage), has);
  }
}

TEST(PciRegisters, GroundTruthTellsWhatEachAddressSpaceReadByPid) {
  ProgramRunner runner(shipped("thesis"));
  std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
  runner.hardware.attach_bar(page.data(), kBar);
  const auto run_as = [&](std::uint64_t cr3, std::uint64_t pid, Ps until) {
    runner.hardware.stored(0, runner.insns(0), kBar + mmio::kPidCore, 8, pid);
    runner.hardware.set_space(0, runner.insns(0), cr3);
    runner.run_to(until);
  };
  runner.put(0, streamer(1 << 28, 16 << 20, AccessKind::load));
  // A PCID, bit 12 and bit 63 of CR3 do not make another address space.
  run_as(0x10000, 1, kPsPerMs);
  run_as(0x20000, 2, 2 * kPsPerMs);
  run_as(std::uint64_t{1} << 63 | 0x11005, 1, 3 * kPsPerMs);
  std::stringstream line;
  runner.hardware.write_ground_truth(line);
  const std::string text = line.str();
  EXPECT_NE(text.find("\"spaces\":[{\"space\":65536,\"pid\":1,"), std::string::npos) << text;
  EXPECT_NE(text.find("{\"space\":131072,\"pid\":2,"), std::string::npos) << text;
  // A packet that was on its way to the controller when the registers changed.
  EXPECT_EQ(text.find("{\"space\":131072,\"pid\":1,\"read_bytes\":64}") == std::string::npos,
            text.find("{\"space\":131072,\"pid\":1,") == std::string::npos)
      << text;
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
