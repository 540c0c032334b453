// SPDX-License-Identifier: GPL-2.0-only
// Clocks, logs and counters of the whole hardware model.
#include "hardware_model.hh"

#include <gtest/gtest.h>

#include <random>

#include "rdt.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Starts the machine. Cores 0 and 1 are awake.
void start_two_cores(HardwareModel *m) {
  m->start(0);
  m->sleep(2, {});
  m->sleep(3, {});
}

TEST(HardwareModel, AHaltedCoreCountsNoCyclesAndWakesAtTheGivenTime) {
  const MachineDescription d = shipped("thesis");
  HardwareModel m(d);
  m.start(5 * kPsPerMs);
  EXPECT_EQ(m.now(0, 0), 5 * kPsPerMs);
  for (unsigned c = 0; c < d.cores; c++) m.sleep(c, {});
  m.wake(2, 7 * kPsPerMs);
  EXPECT_EQ(m.now(2, 0), 7 * kPsPerMs) << "no other core runs";
  EXPECT_EQ(m.slowest_clock(), 7 * kPsPerMs);
  m.sleep(2, {});
  m.wake(2, 6 * kPsPerMs);
  EXPECT_EQ(m.now(2, 0), 7 * kPsPerMs) << "a clock never decreases";
  m.add_busy_time(2, {0, 0}, kPsPerMs / 4, Ring::kernel);
  m.add_busy_time(2, {0, 0}, kPsPerMs * 3 / 4, Ring::user);
  EXPECT_EQ(m.slowest_clock(), 8 * kPsPerMs);
  const std::string line = ground_truth(&m);
  const std::size_t core = line.find("\"core\":2");
  const std::size_t cycles = line.find("\"cycles\"", core);
  EXPECT_EQ(number_after(line, "kernel", cycles), d.clock_hz / 4000) << "of the busy time";
  EXPECT_EQ(number_after(line, "user", cycles), d.clock_hz / 4000 * 3) << "of the busy time";
}

TEST(HardwareModel, TheFirstLineOfGroundTruthBeginsAtTheStart) {
  const MachineDescription d = shipped("thesis");
  HardwareModel m(d);
  m.start(5 * kPsPerMs);
  for (unsigned c = 0; c < d.cores; c++) m.sleep(c, {});
  for (const Ps at : {7 * kPsPerMs, 8 * kPsPerMs}) {
    m.wake(0, at);
    m.sleep(0, {});
    const std::string line = ground_truth(&m);
    EXPECT_EQ(number_after(line, "at_ns"), at / kPsPerNs);
    EXPECT_EQ(number_after(line, "interval_ns"), at == 7 * kPsPerMs ? 2'000'000u : 1'000'000u);
  }
}

TEST(HardwareModel, AnOddClockDoesNotDrift) {
  MachineDescription d = shipped("thesis");
  d.clock_hz = 3'000'000;  // a third of a microsecond
  HardwareModel m(d);
  m.start(0);
  EXPECT_NEAR(static_cast<double>(m.now(0, 3'000'000'000)), 1e15, 2e6) << "1000 s";
  EXPECT_EQ(m.tsc(0, 3'000'000), m.now(0, 3'000'000) / 1000) << "1 GHz";
}

TEST(HardwareModel, ACoreTwoQuantaAheadWaitsAndTheSlowestRuns) {
  const MachineDescription d = shipped("thesis");
  HardwareModel m(d);
  start_two_cores(&m);
  const std::uint64_t quantum = d.quantum * 1000 / d.fs_per_insn();
  EXPECT_EQ(m.sync(0, {quantum, 0}), SyncResult::may_run);
  EXPECT_EQ(m.sync(0, {3 * quantum, 0}), SyncResult::must_wait);
  EXPECT_TRUE(m.may_run(1));
  EXPECT_EQ(m.sync(1, {2 * quantum, 0}), SyncResult::may_run);
  EXPECT_TRUE(m.may_run(0));
  m.sleep(1, {2 * quantum, 0});
  EXPECT_EQ(m.sync(0, {9 * quantum, 0}), SyncResult::may_run) << "all other cores sleep";
}

/// A core that spins with PAUSE retires little, so its pauses are most of its lead.
TEST(HardwareModel, PausesThatAreNotPlayedBackCountInTheLead) {
  const MachineDescription d = shipped("thesis");
  HardwareModel m(d);
  start_two_cores(&m);
  m.add_busy_time(1, {10, 0}, 3 * d.quantum, Ring::kernel);
  EXPECT_EQ(m.sync(1, {10, 0}), SyncResult::must_wait);
  const std::uint64_t quantum = d.quantum * 1000 / d.fs_per_insn();
  EXPECT_EQ(m.sync(0, {3 * quantum, 0}), SyncResult::may_run);
  EXPECT_TRUE(m.may_run(1));
  m.sleep(0, {3 * quantum, 0});
  EXPECT_EQ(m.sync(1, {10 + quantum, 0}), SyncResult::may_run) << "the pauses count once";
  EXPECT_EQ(m.now(1, 10), 3 * d.quantum + 10 * d.fs_per_insn() / 1000);
}

TEST(HardwareModel, TheStallSoFarOfABlockedCoreCountsInItsLead) {
  MachineDescription d = shipped("thesis");
  d.memory.timing.backend = 100 * d.quantum;
  HardwareModel m(d);
  start_two_cores(&m);
  const std::uint64_t quantum = d.quantum * 1000 / d.fs_per_insn();
  m.access(1, 0, 0, 8, AccessKind::load, Ring::user);
  m.sync(0, {10 * quantum, 0});
  EXPECT_EQ(m.sync(1, {1, 0}), SyncResult::may_run) << "it lags by nothing but the miss";
  EXPECT_EQ(m.sync(1, {1 + quantum / 2, 0}), SyncResult::may_run);
  EXPECT_EQ(m.sync(1, {1 + 2 * quantum, 0}), SyncResult::must_wait);
}

TEST(HardwareModel, ACoreThatWaitsForMemoryDoesNotDelayTheSlowest) {
  const MachineDescription d = shipped("laptop");
  HardwareModel m(d);
  start_two_cores(&m);
  // A string instruction logs this many misses at one instruction count.
  for (std::uint64_t i = 0; i < 4096; i++)
    m.access(0, 1, i * kLineBytes, 8, AccessKind::store, Ring::user);
  m.sync(0, {1, 0});
  for (std::uint64_t insns = 0; insns < 40000; insns += 10) {
    m.sync(1, {insns, 0});
    ASSERT_GE(m.slowest_clock(), m.now(1, insns)) << insns;
  }
}

/// The same logs give the same clocks and traffic, in whatever pieces and order they are handed
/// over.
TEST(HardwareModel, TheOrderOfHostThreadsDoesNotChangeTheResult) {
  const MachineDescription d = shipped("thesis");
  std::vector<Ps> clocks[4];
  std::string lines[4];
  for (unsigned seed = 0; seed < 4; seed++) {
    std::mt19937 rng(seed);
    HardwareModel m(d);
    m.start(0);
    std::vector<Program> programs;
    std::uint64_t done[4] = {};
    for (unsigned c = 0; c < 4; c++) {
      const std::uint64_t base = c * 100 * kMiB;
      programs.push_back(c == 3 ? spinner(base) : copier(base, base + 40 * kMiB, 8 * kMiB));
    }
    // Every core does the same total work in different pieces.
    constexpr std::uint64_t kAll = 60000;
    for (bool more = true; more;) {
      more = false;
      const unsigned c = rng() % 4;
      for (std::uint64_t n = 1 + rng() % 3000; n > 0 && done[c] < kAll; n--) {
        const Step s = programs[c]();
        if (s.accesses) m.access(c, done[c], s.address, 8, s.use, Ring::user);
        done[c] += s.insns;
      }
      m.sync(c, {done[c], 0});
      for (unsigned i = 0; i < 4; i++) more = more || done[i] < kAll;
    }
    for (unsigned c = 0; c < 4; c++) m.sleep(c, {done[c], 0});
    for (unsigned c = 0; c < 4; c++) clocks[seed].push_back(m.now(c, done[c]));
    lines[seed] = ground_truth(&m);
    EXPECT_EQ(clocks[seed], clocks[0]) << seed;
    EXPECT_EQ(lines[seed], lines[0]) << seed;
  }
}

TEST(HardwareModel, CountersEqualTheGroundTruth) {
  for (const char *name : {"thesis", "xeon", "laptop"}) {
    ProgramRunner runner(shipped(name));
    HardwareModel &m = runner.hardware;
    runner.put(0, copier(0, 64 * kMiB, 4 * kMiB));
    runner.put(1, streamer(256 * kMiB, 8 * kMiB, AccessKind::store));
    runner.run_to(kPsPerMs);
    const auto write = [&](std::uint32_t msr, std::uint64_t v) {
      EXPECT_EQ(m.wrmsr(0, runner.retired(0), msr, v), MsrResult::handled);
    };
    const std::uint64_t user = 1 << 22 | 1 << 16;
    write(0x186, 0x412E | user);
    write(0x187, 0x4F2E | user);
    write(0x38D, 0x22);
    write(0x38F, 3 | std::uint64_t{3} << 32);
    ground_truth(&m);
    runner.run_to(9 * kPsPerMs);
    std::uint64_t misses = 0, references = 0, insns = 0, cycles = 0;
    EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 0, &misses));
    EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 1, &references));
    EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 1u << 30, &insns));
    EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 1u << 30 | 1, &cycles));
    const std::string line = ground_truth(&m);
    EXPECT_EQ(misses, number_after(line, "user", line.find("\"llc_misses\""))) << name;
    EXPECT_EQ(misses * kLineBytes, number_after(line, "read_bytes")) << name;
    EXPECT_EQ(references, number_after(line, "user", line.find("\"llc_references\""))) << name;
    EXPECT_EQ(insns, number_after(line, "user", line.find("\"instructions\""))) << name;
    EXPECT_NEAR(static_cast<double>(cycles),
                static_cast<double>(number_after(line, "user", line.find("\"cycles\""))), 1)
        << name;
    EXPECT_GT(misses, 1000u) << name;
  }
}

/// The sum of a key's numbers in a part of a line of ground truth.
std::uint64_t sum(const std::string &line, const std::string &key, const char *from,
                  const char *to) {
  std::uint64_t all = 0;
  const std::size_t end = line.find(to);
  for (std::size_t at = line.find(from); (at = line.find("\"" + key + "\":", at)) < end; at++)
    all += number_after(line, key, at);
  return all;
}

/// Cores, RMIDs, hardware ids and the memory count the same bytes, each in its own place.
TEST(HardwareModel, AccountsOfCoresRmidsPidsAndMemoryAgreeWhenAllIsQuiet) {
  for (const bool bypass : {false, true}) {
    MachineDescription d = shipped("disk");
    d.streaming_stores = bypass;
    ProgramRunner runner(d);
    HardwareModel &m = runner.hardware;
    runner.put(0, copier(0, 64 * kMiB, 8 * kMiB));
    runner.put(1, streamer(256 * kMiB, 8 * kMiB, AccessKind::streaming));
    runner.put(2, streamer(300 * kMiB, 8 * kMiB, AccessKind::store));
    for (unsigned core = 0; core < 3; core++)
      ASSERT_EQ(m.wrmsr(core, runner.retired(core), msr::kPqrAssoc, core), MsrResult::handled);
    for (std::uint64_t id = 0; id < 8; id++)
      m.start_transfer(id % 3, runner.insns(id % 3),
                       {id, id % 2 == 0 ? Dir::write : Dir::read, {{id * kMiB, 65536}}, 0});
    runner.run_to(60 * kPsPerMs);
    ASSERT_FALSE(m.device_is_busy());
    for (unsigned core = 0; core < 3; core++) {
      m.drain(core, runner.retired(core));
      m.sleep(core, runner.retired(core));
    }
    // Memory serves what the cores wrote last while the clock of the core that sleeps last moves
    // on.
    m.wake(0, 61 * kPsPerMs);
    m.sleep(0, runner.retired(0));
    m.sync(0, runner.retired(0));
    const std::string line = ground_truth(&m);
    const std::uint64_t device = sum(line, "to_memory_bytes", "\"device\"", "\"memory\"") +
                                 sum(line, "from_memory_bytes", "\"device\"", "\"memory\"") -
                                 sum(line, "cached_bytes", "\"device\"", "\"memory\"");
    const std::uint64_t packets = sum(line, "packets", "\"memory\"", "\"turnarounds\"");
    EXPECT_GT(device, 4u * 65536) << "what it stores, at least";
    for (const char *key : {"read_bytes", "write_bytes"}) {
      const std::uint64_t of_cores = sum(line, key, "\"cores\"", "\"rmids\"");
      EXPECT_GT(of_cores, 1000 * kLineBytes) << key;
      EXPECT_EQ(of_cores, sum(line, key, "\"rmids\"", "\"pids\"")) << key;
    }
    const auto both = [&line](const char *from, const char *to) {
      return sum(line, "read_bytes", from, to) + sum(line, "write_bytes", from, to);
    };
    EXPECT_EQ(both("\"cores\"", "\"rmids\"") + device, packets * kLineBytes) << bypass;
    EXPECT_EQ(both("\"pids\"", "\"spaces\""), packets * kLineBytes) << bypass;
  }
}

/// A streaming store writes memory and reads nothing, whatever the caches hold.
TEST(HardwareModel, StreamingStoresWriteEachLineOnceAndReadNothing) {
  for (const bool bypass : {true, false}) {
    MachineDescription d = shipped("xeon");
    d.streaming_stores = bypass;
    ProgramRunner runner(d);
    runner.put(0, streamer(0, 64 * kMiB, AccessKind::streaming));
    runner.run_to(20 * kPsPerMs);
    ground_truth(&runner.hardware);
    runner.run_to(60 * kPsPerMs);
    const std::string line = ground_truth(&runner.hardware);
    const std::uint64_t read = number_after(line, "read_bytes");
    const std::uint64_t written = number_after(line, "write_bytes");
    EXPECT_GT(written, 1000 * kLineBytes) << bypass;
    if (bypass)
      EXPECT_EQ(read, 0u);
    else
      EXPECT_GT(read, written / 2) << "ordinary stores fetch the line first";
  }
}

/// Core 0 of a machine with streaming stores, on its own.
class StreamingCore {
 public:
  StreamingCore() : model_(machine()) {
    model_.start(0);
    for (unsigned c = 1; c < 4; c++) model_.sleep(c, {});
  }
  void access(std::uint64_t address, AccessKind kind) {
    model_.access(0, insns_++, address, 8, kind, Ring::user);
  }
  void stream_lines(std::uint64_t lines) {
    for (std::uint64_t at = 0; at < lines * kLineBytes; at += 8) access(at, AccessKind::streaming);
  }
  void flush(std::uint64_t address) { model_.flush(0, insns_++, address); }
  /// Lines that it wrote since the last call.
  std::uint64_t written() {
    model_.drain(0, {insns_, 0});
    return number_after(ground_truth(&model_), "write_bytes") / kLineBytes;
  }

 private:
  static MachineDescription machine() {
    MachineDescription d = shipped("thesis");
    d.streaming_stores = true;
    return d;
  }
  HardwareModel model_;
  std::uint64_t insns_ = 0;
};

TEST(HardwareModel, AWholeLineThatIsStreamedAgainIsWrittenAgain) {
  StreamingCore core;
  for (unsigned pass = 0; pass < 4; pass++) core.stream_lines(3);
  EXPECT_EQ(core.written(), 4u * 3);
}

TEST(HardwareModel, StreamingStoresToAPartOfALineCombine) {
  StreamingCore core;
  for (unsigned i = 0; i < 20; i++) core.access(i % 7 * 8, AccessKind::streaming);
  EXPECT_EQ(core.written(), 1u) << "its last word is missing";
  core.access(7 * 8, AccessKind::streaming);
  EXPECT_EQ(core.written(), 0u) << "it was counted at its first word";
  core.access(0, AccessKind::streaming);
  EXPECT_EQ(core.written(), 1u);
}

TEST(HardwareModel, ALineThatIsAccessedOrFlushedLeavesItsCombiningBuffer) {
  for (const AccessKind kind : {AccessKind::load, AccessKind::store}) {
    StreamingCore core;
    core.access(0, AccessKind::streaming);
    core.access(8, kind);
    core.access(16, AccessKind::streaming);
    EXPECT_EQ(core.written(), 2u);
  }
  StreamingCore core;
  core.access(0, AccessKind::streaming);
  core.flush(0);
  core.access(0, AccessKind::streaming);
  EXPECT_EQ(core.written(), 2u);
}

TEST(HardwareModel, TheOldestOfTooManyPartsOfLinesLeavesItsCombiningBuffer) {
  StreamingCore core;
  for (std::uint64_t i = 0; i < 11; i++) core.access(i * kLineBytes, AccessKind::streaming);
  core.access(10 * kLineBytes, AccessKind::streaming);
  core.access(1 * kLineBytes, AccessKind::streaming);
  EXPECT_EQ(core.written(), 11u);
  core.access(0, AccessKind::streaming);
  EXPECT_EQ(core.written(), 1u);
}

/// The events of a Haswell for reads and writes, beside what the core moved.
TEST(HardwareModel, EventsOfReadsAndWritesEqualTheTraffic) {
  struct Case {
    const char *name;
    Program program;
  };
  for (const char *machine : {"thesis", "xeon"}) {
    for (const Case &c : {Case{"read", streamer(0, 64 * kMiB, AccessKind::load)},
                          Case{"write", streamer(0, 64 * kMiB, AccessKind::store)},
                          Case{"copy", copier(0, 64 * kMiB, 32 * kMiB)}}) {
      ProgramRunner runner(shipped(machine));
      HardwareModel &m = runner.hardware;
      runner.put(0, c.program);
      runner.run_to(120 * kPsPerMs);  // the shared cache is full of dirty lines
      const auto write = [&](std::uint32_t msr, std::uint64_t v) {
        EXPECT_EQ(m.wrmsr(0, runner.retired(0), msr, v), MsrResult::handled);
      };
      write(0x1A6, 0x3FFFC007F7);
      write(0x1A7, 0x3FFFC00122);
      write(0x186, 0x01B7 | 3 << 16 | 1 << 22);
      write(0x187, 0x01BB | 3 << 16 | 1 << 22);
      write(0x38F, 3);
      ground_truth(&m);
      runner.run_to(200 * kPsPerMs);
      std::uint64_t reads = 0, writes = 0;
      EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 0, &reads));
      EXPECT_TRUE(m.rdpmc(0, runner.retired(0), 1, &writes));
      const std::string line = ground_truth(&m);
      EXPECT_EQ(reads * kLineBytes, number_after(line, "read_bytes")) << machine << ' ' << c.name;
      const double written = static_cast<double>(number_after(line, "write_bytes"));
      EXPECT_NEAR(static_cast<double>(writes * kLineBytes), written, 0.01 * written)
          << machine << ' ' << c.name;
    }
  }
}

/// The stall of a miss is counted before CPUID and WRMSR, even if the window would let the core go
/// on.
TEST(HardwareModel, ASerializingInstructionWaitsForMisses) {
  HardwareModel m(shipped("laptop"));
  m.start(0);
  for (unsigned c = 1; c < 4; c++) m.sleep(c, {});
  m.access(0, 1, 0, 8, AccessKind::store, Ring::user);
  m.drain(0, {2, 0});
  EXPECT_GT(number_after(ground_truth(&m), "stall_cycles"), 10u);
  m.drain(0, {100000, 0});
  EXPECT_EQ(number_after(ground_truth(&m), "stall_cycles"), 0u);
}

TEST(HardwareModel, AnRmidChangeAppliesToLaterMissesOnly) {
  ProgramRunner runner(shipped("thesis"));
  HardwareModel &m = runner.hardware;
  m.wake(0, 0);
  // These misses keep the old id, although they are played back after the change.
  for (std::uint64_t i = 0; i < 10; i++) m.access(0, i, i * 4096, 8, AccessKind::load, Ring::user);
  EXPECT_EQ(m.wrmsr(0, {10, 0}, msr::kPqrAssoc, 1), MsrResult::handled);
  for (std::uint64_t i = 0; i < 7; i++)
    m.access(0, 10 + i, kMiB + i * 4096, 8, AccessKind::load, Ring::user);
  m.drain(0, {20, 0});
  const std::string line = ground_truth(&m);
  const unsigned lines = 1 + shipped("thesis").prefetch.degree;
  EXPECT_LE(number_after(line, "read_bytes", line.find("\"rmid\":0")), 10 * lines * kLineBytes);
  EXPECT_EQ(number_after(line, "occupancy_bytes", line.find("\"rmid\":0")),
            number_after(line, "read_bytes", line.find("\"rmid\":0")));
  EXPECT_GE(number_after(line, "read_bytes", line.find("\"rmid\":0")), 10 * kLineBytes);
  EXPECT_GE(number_after(line, "read_bytes", line.find("\"rmid\":1")), 7 * kLineBytes);
}

TEST(HardwareModel, AFlushedLineIsFetchedAgainAndWrittenIfDirty) {
  ProgramRunner runner(shipped("thesis"));
  HardwareModel &m = runner.hardware;
  m.wake(0, 0);
  m.access(0, 0, 0x1fc0, 8, AccessKind::store, Ring::user);
  m.flush(0, 1, 0x1fc0);
  m.access(0, 2, 0x1fc0, 8, AccessKind::load, Ring::user);
  m.flush(0, 3, 0x1fc0);
  m.drain(0, {4, 0});
  const std::string line = ground_truth(&m);
  EXPECT_EQ(number_after(line, "read_bytes"), 2u * kLineBytes);
  EXPECT_EQ(number_after(line, "write_bytes"), 1u * kLineBytes);
}

TEST(HardwareModel, UnknownMsrsAreNotHandled) {
  ProgramRunner runner(shipped("thesis"));
  std::uint64_t v = 0;
  for (std::uint32_t msr : {0x10u, 0x1Bu, 0x1A0u, 0xCEu, 0xC0000080u, 0xC8Cu, 0x391u}) {
    EXPECT_EQ(runner.hardware.rdmsr(0, {}, msr, &v), MsrResult::not_ours) << std::hex << msr;
    EXPECT_EQ(runner.hardware.wrmsr(0, {}, msr, 0), MsrResult::not_ours) << std::hex << msr;
  }
}

TEST(HardwareModel, ACoreThatNeverWaitsIsStillPlayedBack) {
  const MachineDescription d = shipped("thesis");
  HardwareModel m(d);
  m.start(0);
  Program p = copier(0, 64 * kMiB, 16 * kMiB);
  std::uint64_t done = 0;
  for (int i = 0; i < 3'000'000; i++) {
    const Step s = p();
    if (s.accesses && m.access(0, done, s.address, 8, s.use, Ring::user) == AccessResult::sync)
      m.sync(0, {done, 0});
    done += s.insns;
  }
  m.drain(0, {done, 0});
  EXPECT_GT(m.now(0, done), 100 * kPsPerMs) << "although core 1 never advanced";
}

}  // namespace
}  // namespace drfq::hardware
