// SPDX-License-Identifier: GPL-2.0-only
// A device's transfers: when they finish, what they cost memory, and which task pays.
#include <gtest/gtest.h>

#include "dma_engine.hh"
#include "memory_port.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
/// A link of half of the memory's bandwidth m.
constexpr std::uint64_t kLinkFsPerByte = 7'500'000;

MachineDescription machine(std::uint64_t fs_per_byte = kLinkFsPerByte) {
  MachineDescription d = shipped("thesis");
  d.storage.queues = 1;
  d.storage.bytes = kMiB;
  d.storage.fs_per_byte = fs_per_byte;
  d.storage.latency = kPsPerMs;
  d.storage.outstanding = 32;
  return d;
}

Transfer transfer(std::uint64_t id, std::uint64_t address, std::uint64_t bytes,
                  Dir dir = Dir::write) {
  return {id, dir, {{address, bytes}}, 1};
}

/// Moves core 0, the only one awake, in steps until a transfer has finished, at most to a limit.
std::vector<FinishedTransfer> wait_for(HardwareModel *m, Ps step, Ps limit = 1000 * kPsPerMs) {
  for (Ps at = m->now(0, 0); at < limit; at += step) {
    m->sleep(0, {});
    m->wake(0, at);
    std::vector<FinishedTransfer> done = m->take_finished();
    if (!done.empty()) return done;
  }
  return {};
}

/// A machine whose cores all sleep but for core 0.
std::unique_ptr<HardwareModel> started(const MachineDescription &d) {
  auto m = std::make_unique<HardwareModel>(d);
  m->start(0);
  for (unsigned c = 1; c < d.cores; c++) m->sleep(c, {});
  return m;
}

std::uint64_t field(HardwareModel *m, const std::string &name, const std::string &after) {
  const std::string line = ground_truth(m);
  const std::size_t part = line.find("\"" + after + "\":");
  return part == std::string::npos ? ~0ull : number_after(line, name, part);
}

TEST(DmaEngine, LinesLeaveAtTheLinksRateAfterTheLatency) {
  const MachineDescription d = machine();
  DmaEngine e(d);
  e.start(transfer(7, 32, 192), 0, kPsPerMs);
  const Ps ready = kPsPerMs + d.storage.latency - DmaEngine::lookahead(d);
  EXPECT_EQ(e.next_event(), ready);
  std::vector<std::uint32_t> sizes;
  Ps last = 0;
  while (e.next_event() != kNever) {
    last = e.next_event();
    sizes.push_back(e.take().bytes);
  }
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{32, 64, 64, 32}));
  EXPECT_EQ(last, ready + 160 * kLinkFsPerByte / 1000);
  for (unsigned i = 0; i < 4; i++) e.done(0, last + i);
  const std::vector<FinishedTransfer> done = e.take_finished();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].id, 7u);
  EXPECT_EQ(done[0].due, last + 3 + DmaEngine::lookahead(d));
}

TEST(DmaEngine, LinesLeaveAtTheLinksRateAfterADayOfSimulatedTime) {
  DmaEngine e(machine());
  const Ps day = 86400 * Ps{1000} * kPsPerMs;
  e.start(transfer(1, 0, 256), 0, day);
  const Ps first = e.next_event();
  EXPECT_GT(first, day);
  for (unsigned i = 0; i < 4; i++) {
    EXPECT_EQ(e.next_event(), first + i * 64 * kLinkFsPerByte / 1000);
    e.take();
  }
}

TEST(DmaEngine, ALinkThatFullMemoryStoppedGoesOnAtItsRateAndMakesUpForNothing) {
  MachineDescription d = machine();
  d.storage.outstanding = 2;
  DmaEngine e(d);
  e.start(transfer(1, 0, 1024), 0, 0);
  e.take();
  e.take();
  EXPECT_EQ(e.next_event(), kNever);
  const Ps stopped_until = 50 * kPsPerMs;
  e.done(0, stopped_until);
  e.done(0, stopped_until);
  for (Ps i = 0; i < 8; i++) {
    const Ps leaves = stopped_until + i * 64 * kLinkFsPerByte / 1000;
    EXPECT_EQ(e.next_event(), leaves) << i;
    e.take();
    e.done(0, leaves);
  }
}

TEST(DmaEngine, OnlyLinesThatLeftCount) {
  DmaEngine e(machine());
  e.start(transfer(1, 32, 192), 0, 0);
  e.start(transfer(2, 0, 64, Dir::read), 0, 0);
  EXPECT_EQ(e.traffic().to_memory_bytes, 0u);
  e.take();
  EXPECT_EQ(e.traffic().to_memory_bytes, 32u);
  e.cancel();
  EXPECT_EQ(e.traffic().to_memory_bytes + e.traffic().from_memory_bytes, 32u);
}

TEST(DmaEngine, ACancelledCommandNeverFinishes) {
  DmaEngine e(machine());
  e.start(transfer(1, 0, 128), 0, 0);
  const DmaEngine::Piece p = e.take();
  e.cancel();
  EXPECT_FALSE(e.busy());
  e.done(p.command, kPsPerMs);
  EXPECT_FALSE(e.has_finished());
  e.start(transfer(2, 0, 64), 0, kPsPerMs);
  e.done(e.take().command, 3 * kPsPerMs);
  EXPECT_EQ(e.take_finished().at(0).id, 2u);
}

TEST(Device, ATransferTakesItsLatencyAndItsTimeOnTheLink) {
  const MachineDescription d = machine();
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, 128 << 10));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  const double expected =
      static_cast<double>(d.storage.latency + (128 << 10) * kLinkFsPerByte / 1000);
  EXPECT_NEAR(static_cast<double>(done[0].due - done[0].started), expected, 0.01 * expected);
}

TEST(Device, TheTimeOfACompletionDoesNotDependOnHowOftenTheCoresTakeTurns) {
  Ps first = 0;
  for (const Ps divisor : {1, 3, 20}) {
    const MachineDescription d = machine();
    const auto m = started(d);
    for (std::uint64_t id = 0; id < 4; id++)
      m->start_transfer(0, 0, transfer(id, kMiB * (id + 1), 64 << 10));
    std::vector<FinishedTransfer> all;
    while (all.size() < 4)
      for (const FinishedTransfer &t : wait_for(m.get(), d.quantum / divisor)) all.push_back(t);
    if (first == 0) first = all.back().due;
    EXPECT_EQ(all.back().due, first) << divisor;
  }
}

TEST(Device, ACompletionIsKnownBeforeAnyCoreGetsThere) {
  const MachineDescription d = machine();
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, 4096));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_GE(done[0].due, m->now(0, 0) + d.quantum) << "a core's chunk lasts one quantum";
}

TEST(Device, MemoryThatIsSlowerThanTheLinkSlowsTheDeviceDown) {
  constexpr std::uint64_t kBytes = 512 << 10;
  const MachineDescription d = machine(1'000'000);  // four times m
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, kBytes));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  const double rate =
      static_cast<double>(kBytes) /
      (static_cast<double>(done[0].due - done[0].started - d.storage.latency) / 1000);
  EXPECT_LT(rate, 1.02 * d.peak_bytes_per_ns());
  EXPECT_GT(rate, 0.5 * d.peak_bytes_per_ns());
}

/// The controller keeps writes for a batch that never comes, as nothing else wants memory.
TEST(Device, WhatItStoresIsDoneOnceTheControllerHasIt) {
  MachineDescription d = machine();
  d.memory.controller.policy = Policy::lvtf;
  d.memory.controller.batch = true;
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, 4096));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  const Ps on_link = 63 * 64 * kLinkFsPerByte / 1000;
  EXPECT_NEAR(static_cast<double>(done[0].due - done[0].started),
              static_cast<double>(d.storage.latency + on_link), 64);
}

/// A write that waits for a batch is overdue 15 ms later. That is no reason for memory to go there.
/// Nor is the clock of a core that sleeps ahead of the one that went to sleep last.
TEST(Device, MemoryDoesNotPassTheCoreThatWentToSleepLast) {
  MachineDescription d = machine();
  d.memory.controller.policy = Policy::lvtf;
  d.memory.controller.batch = true;
  for (const Ps lead : {Ps{0}, 20 * kPsPerMs}) {
    const auto m = started(d);
    m->start_transfer(0, 0, transfer(1, kMiB, 64));
    wait_for(m.get(), d.quantum);
    const Ps before = m->now(0, 0) + d.quantum;
    m->wake(1, before + lead);
    m->sleep(1, {});
    m->sleep(0, {});
    m->wake(0, before);
    for (std::uint64_t insns : {100, 200}) {
      m->access(0, insns, insns * kMiB, 8, AccessKind::load, Ring::user);
      m->drain(0, {insns, 0});
    }
    EXPECT_LT(m->now(0, 200) - before, kPsPerMs) << "the second load waits for the first";
  }
}

TEST(Device, WhatItLoadsIsDoneOnceItArrives) {
  const MachineDescription d = machine();
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, 4096, Dir::read));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  const Ps on_link = 63 * 64 * kLinkFsPerByte / 1000;
  EXPECT_GE(done[0].due - done[0].started - d.storage.latency - on_link,
            MemoryPort::idle_latency(d.memory.timing) - d.memory.timing.rcd);
}

TEST(Device, TheTaskWhoseLabelTheCoreHasAtTheDoorbellPaysForEveryByte) {
  const MachineDescription d = machine();
  const auto m = started(d);
  std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
  m->attach_bar(page.data(), std::uint64_t{1} << 40);
  const auto label = [&](std::uint64_t pid) {
    m->stored(0, 0, (std::uint64_t{1} << 40) + mmio::kPidCore, 8, pid);
  };
  label(5);
  m->start_transfer(0, 0, transfer(1, kMiB + 32, 4096));
  label(6);
  EXPECT_EQ(wait_for(m.get(), d.quantum).at(0).pid, 5u);
  m->start_transfer(0, 0, transfer(2, kMiB, 1000, Dir::read));
  EXPECT_EQ(wait_for(m.get(), d.quantum).at(0).pid, 6u);
  EXPECT_EQ(page[(mmio::kTrafficPeek + 8 * 5) / 8], 4096u);
  EXPECT_EQ(page[(mmio::kTrafficPeek + 8 * 6) / 8], 1000u);
}

TEST(Device, WhatItStoresIsInNoCacheAfterwards) {
  const MachineDescription d = machine();
  const auto m = started(d);
  RetiredInsns p;
  const auto load = [&] {
    p.user += 100;
    m->access(0, p.user, kMiB, 8, AccessKind::load, Ring::user);
    m->drain(0, p);
  };
  load();
  m->start_transfer(0, p.user, transfer(1, kMiB, 64));
  for (Ps at = m->now(0, p.user); m->take_finished().empty(); at += d.quantum) {
    m->sleep(0, p);
    m->wake(0, at);
  }
  m->sync(0, p);
  field(m.get(), "user", "llc_misses");
  load();
  EXPECT_EQ(field(m.get(), "user", "llc_misses"), 1u);
}

TEST(Device, WithDdioItsDataStaysInItsWaysOfTheCache) {
  MachineDescription d = machine();
  for (const unsigned ways : {0u, 2u}) {
    d.storage.ddio_ways = ways;
    const auto m = started(d);
    m->start_transfer(0, 0, transfer(1, kMiB, 64 << 10));
    wait_for(m.get(), d.quantum);
    EXPECT_EQ(field(m.get(), "cached_bytes", "device"), ways == 0 ? 0u : 64u << 10);
  }
  // Twice what the ways hold: the first half goes to memory.
  const auto m = started(d);
  const std::uint64_t holds = d.llc.bytes / d.llc.ways * 2;
  m->start_transfer(0, 0, transfer(1, kMiB, holds));
  m->start_transfer(0, 0, transfer(2, kMiB + holds, holds));
  wait_for(m.get(), d.quantum);
  wait_for(m.get(), d.quantum);
  EXPECT_EQ(field(m.get(), "write_bytes", "pids"), holds);
}

/// The link is four times as fast as memory, to which each line pushes another one.
TEST(Device, WithDdioItIsNoFasterThanTheWriteBacksThatItCauses) {
  MachineDescription d = machine(kLinkFsPerByte / 8);
  d.storage.ddio_ways = 2;
  const auto m = started(d);
  const std::uint64_t holds = d.llc.bytes / d.llc.ways * 2;
  m->start_transfer(0, 0, transfer(1, kMiB, holds));
  wait_for(m.get(), d.quantum);
  m->start_transfer(0, 0, transfer(2, kMiB + holds, 4 * holds));
  const std::vector<FinishedTransfer> done = wait_for(m.get(), d.quantum);
  ASSERT_EQ(done.size(), 1u);
  const Ps moved = done[0].due - done[0].started - d.storage.latency;
  EXPECT_GT(moved, 4 * holds * (kLinkFsPerByte / 2) / 1000 * 9 / 10);
}

/// Core 0 dirties lines under RMID 3. Then the device, for pid 5, pushes them out of its ways.
TEST(Device, WithDdioAWriteBackIsChargedToTheLinesOwnIds) {
  MachineDescription d = machine();
  d.storage.ddio_ways = d.llc.ways;
  d.l1.bytes = d.l1.ways * kLineBytes;  // the private cache keeps next to nothing
  d.prefetch.kind = PrefetcherConfig::Kind::none;
  const auto m = started(d);
  std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
  m->attach_bar(page.data(), std::uint64_t{1} << 40);
  m->stored(0, 0, (std::uint64_t{1} << 40) + mmio::kPidCore, 8, 5);
  RetiredInsns p;
  ASSERT_EQ(m->wrmsr(0, p, msr::kPqrAssoc, 3), MsrResult::handled);
  constexpr std::uint64_t kLines = 1000;
  for (std::uint64_t i = 0; i < kLines + d.l1.ways; i++)
    m->access(0, p.user++, 16 * kMiB + i * kLineBytes, 8, AccessKind::store, Ring::user);
  m->drain(0, p);
  ground_truth(m.get());
  m->start_transfer(0, p.user, transfer(1, 64 * kMiB, d.llc.bytes));
  for (Ps at = m->now(0, p.user); m->take_finished().empty(); at += d.quantum) {
    m->sleep(0, p);
    m->wake(0, at);
  }
  const std::string line = ground_truth(m.get());
  const std::size_t row = line.find("\"rmid\":3,");
  ASSERT_NE(row, std::string::npos);
  EXPECT_GE(number_after(line, "write_bytes", row), kLines * kLineBytes);
  EXPECT_EQ(line.find("\"pid\":5"), std::string::npos) << "its own data stays in the cache";
}

TEST(Device, APartOfALineLeavesTheRestOfADirtyOneToMemory) {
  for (const std::uint64_t bytes : {32u, 64u}) {
    MachineDescription d = machine();
    d.l1.bytes = d.l1.ways * kLineBytes;
    d.prefetch.kind = PrefetcherConfig::Kind::none;
    const auto m = started(d);
    RetiredInsns p;
    for (std::uint64_t i = 0; i <= d.l1.ways; i++)
      m->access(0, p.user++, 16 * kMiB + i * kMiB, 8, AccessKind::store, Ring::user);
    m->drain(0, p);
    ground_truth(m.get());
    m->start_transfer(0, p.user, transfer(1, 16 * kMiB, bytes));
    for (Ps at = m->now(0, p.user); m->take_finished().empty(); at += d.quantum) {
      m->sleep(0, p);
      m->wake(0, at);
    }
    const std::string line = ground_truth(m.get());
    EXPECT_EQ(number_after(line, "write_bytes", line.find("\"pids\"")),
              bytes == 64 ? 64 : bytes + kLineBytes);
  }
}

TEST(Device, CancelledTransfersNeverFinish) {
  const MachineDescription d = machine();
  const auto m = started(d);
  m->start_transfer(0, 0, transfer(1, kMiB, 4096));
  m->cancel_transfers();
  EXPECT_TRUE(wait_for(m.get(), d.quantum, 10 * kPsPerMs).empty());
  EXPECT_FALSE(m->device_is_busy());
}

TEST(Device, ACopierBesideItLosesNoMoreThanTheDeviceMoves) {
  MachineDescription d = machine();
  const auto copied = [&d](bool with_device) {
    ProgramRunner r(d);
    r.put(0, copier(0, 64 * kMiB, 16 * kMiB));
    r.put(1, copier(128 * kMiB, 192 * kMiB, 16 * kMiB));
    if (with_device)
      for (std::uint64_t id = 0; id < 64; id++)
        r.hardware.start_transfer(0, 0, transfer(id, 256 * kMiB + id * (128 << 10), 128 << 10));
    r.run_to(20 * kPsPerMs);
    return r.insns(0) + r.insns(1);
  };
  const double share = static_cast<double>(copied(true)) / static_cast<double>(copied(false));
  EXPECT_LT(share, 0.8) << "the device takes up to half of m";
  EXPECT_GT(share, 0.45);
}

TEST(Device, ASlowDeviceHardlyDelaysACore) {
  const auto read = [](bool with_device) {
    const MachineDescription d = machine(16 * kLinkFsPerByte);
    ProgramRunner r(d);
    r.put(0, streamer(0, 64 * kMiB, AccessKind::load));
    if (with_device) r.hardware.start_transfer(0, 0, transfer(1, 128 * kMiB, 16 * kMiB));
    r.run_to(20 * kPsPerMs);
    return static_cast<double>(r.insns(0));
  };
  EXPECT_GT(read(true), 0.95 * read(false));
}

TEST(Device, ItMovesNothingAheadOfTheCores) {
  MachineDescription d = machine(16 * kLinkFsPerByte);
  d.storage.ddio_ways = 2;  // without memory, which would hold it back
  ProgramRunner r(d);
  r.put(0, streamer(0, 64 * kMiB, AccessKind::load));
  r.hardware.start_transfer(0, 0, transfer(1, 128 * kMiB, 16 * kMiB));
  r.run_to(20 * kPsPerMs);
  EXPECT_LE(field(&r.hardware, "cached_bytes", "device"),
            21 * kPsPerMs / (16 * kLinkFsPerByte / 1000));
}

}  // namespace
}  // namespace drfq::hardware
