// SPDX-License-Identifier: GPL-2.0-only
// Input logs: what they hold is enough to compute a machine's times again.
#include "replay.hh"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "program_runner.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kTransfers = 6;

/// A string that outlives its stream.
class StringFile : public std::ostringstream {
 public:
  explicit StringFile(std::string *text) : text_(text) {}
  ~StringFile() override { *text_ = str(); }

 private:
  std::string *text_;
};

/// Replaces text that a description has.
void change(std::string *text, const std::string &what, const std::string &by) {
  const std::size_t at = text->find(what);
  ASSERT_NE(at, std::string::npos) << what;
  text->replace(at, what.size(), by);
}

/// The machine `disk` with a controller that serves by virtual time, and with streaming stores.
std::string description() {
  std::string text = read_file(std::string(MACHINES) + "/disk.toml");
  change(&text, "\npolicy = \"frfcfs\"", "\npolicy = \"lvtf\"");
  change(&text, "\n[cpu]\n", "\n[cpu]\nstreaming_stores = true\n");
  return text;
}

/// The program, with some stores that bypass the caches.
Program with_streaming_stores(Program program) {
  return [program = std::move(program), n = 0u]() mutable {
    Step s = program();
    if (s.use == AccessKind::store && n++ % 64 < 8) s.use = AccessKind::streaming;
    return s;
  };
}

/// Two copies of different classes and virtual times, a device that moves data beside them, and
/// each kind of call. finished: what the emulator was told.
std::string record(std::vector<FinishedTransfer> *finished) {
  constexpr std::uint64_t kBar = std::uint64_t{1} << 40;
  const MachineDescription d = load_machine_description("disk", description());
  std::string log;
  ProgramRunner r(
      d, std::make_unique<InputLog>(std::make_unique<StringFile>(&log), description(), d.cores));
  HardwareModel &m = r.hardware;
  std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
  m.attach_bar(page.data(), kBar);
  r.put(0, scattered(with_streaming_stores(copier(0, 8 * kMiB, 8 * kMiB))));
  r.put(1, scattered(delayed(5000, copier(32 * kMiB, 40 * kMiB, 8 * kMiB))));
  for (unsigned core = 0; core < 2; core++) {
    m.stored(core, r.insns(core), kBar + mmio::kPidCore + 8 * core, 8, core + 1);
    m.stored(core, r.insns(core), kBar + mmio::kVtimeCore + 8 * core, 8, 100 - core);
  }
  m.set_space(0, r.insns(0), 0x1234000);
  EXPECT_EQ(m.wrmsr(1, r.retired(1), msr::kPqrAssoc, std::uint64_t{1} << 32 | 3),
            MsrResult::handled);
  EXPECT_EQ(m.wrmsr(1, r.retired(1), msr::kMbaDelay + 1, 50), MsrResult::handled);
  const auto take = [&] {
    for (const FinishedTransfer &t : m.take_finished()) finished->push_back(t);
  };
  for (std::uint64_t i = 0; i < kTransfers; i++) {
    const unsigned core = i % 2;
    m.start_transfer(
        core, r.insns(core),
        {i, i % 3 == 0 ? Dir::read : Dir::write, {{(64 + i) * kMiB, 65536}, {8 * kMiB, 512}}, 1});
    r.run_to((i + 1) * 2 * kPsPerMs);
    // It is dirty in the private cache.
    m.access(core, r.insns(core), 96 * kMiB + 64 * i, 8, AccessKind::store, Ring::user);
    m.flush(core, r.insns(core), 96 * kMiB + 64 * i);
    m.add_busy_time(core, r.retired(core), 3 * kPsPerUs, Ring::user);
    std::uint64_t count = 0;
    m.rdmsr(core, r.retired(core), msr::kQmCtr, &count);
    take();
  }
  r.run_to(20 * kPsPerMs);
  take();
  m.start_transfer(0, r.insns(0), {kTransfers, Dir::write, {{80 * kMiB, 65536}}, 1});
  r.run_to(21400 * kPsPerUs);
  m.cancel_transfers();
  r.run_to(24 * kPsPerMs);
  take();
  m.record(nullptr);
  return log;
}

const std::string &recorded() {
  static std::vector<FinishedTransfer> finished;
  static const std::string log = record(&finished);
  EXPECT_EQ(finished.size(), kTransfers);
  EXPECT_EQ(finished.front().pid, 1u);
  return log;
}

Replayed replay_text(const std::string &log, unsigned skip = 0, std::ostream *transfers = nullptr) {
  std::istringstream in(log);
  return replay(in, skip, transfers);
}

TEST(Replay, GivesTheSameTimesAndTraffic) {
  std::ostringstream transfers;
  const Replayed r = replay_text(recorded(), 0, &transfers);
  EXPECT_EQ(r.difference, "");
  EXPECT_EQ(r.transfers, kTransfers);
  EXPECT_EQ(r.clocks, 4u);
  const std::string text = transfers.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<long>(kTransfers) + 1);
  EXPECT_EQ(text.substr(0, text.find('\n')), kTransferColumns);
}

/// The emulator's threads call whenever the host runs them. Here no core sleeps.
TEST(Replay, DoesNotDependOnWhenLogsArePlayed) {
  for (const unsigned skip : {1u, 7u, 100u}) {
    const Replayed r = replay_text(recorded(), skip);
    EXPECT_EQ(r.difference, "") << skip;
    EXPECT_EQ(r.transfers, kTransfers) << skip;
  }
}

TEST(Replay, FindsADifference) {
  std::string log = recorded();
  const std::size_t at = log.find("latency_us = ");
  ASSERT_NE(at, std::string::npos);
  char &digit = log[at + 13];
  digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
  const Replayed r = replay_text(log);
  EXPECT_NE(r.difference.find("was due at"), std::string::npos) << r.difference;
  EXPECT_EQ(r.transfers, 0u);
}

TEST(Replay, RefusesADamagedLog) {
  const std::string log = recorded();
  EXPECT_THROW(replay_text(log.substr(0, log.size() / 2)), std::runtime_error);
  EXPECT_THROW(replay_text(log.substr(0, log.size() - 1)), std::runtime_error);
  EXPECT_THROW(replay_text("drfq-input-log-0 3\nabc"), std::runtime_error);
  EXPECT_THROW(replay_text(""), std::runtime_error);
  std::string changed = log;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  EXPECT_THROW(replay_text(changed), std::runtime_error);
  EXPECT_THROW(replay_text(log + "x"), std::runtime_error);
}

TEST(Replay, RefusesARunThatIsTooLongWithItsReason) {
  std::string log;
  InputLog(std::make_unique<StringFile>(&log), description(), 4).start(std::uint64_t{1} << 55);
  try {
    replay_text(log);
    FAIL() << "it was accepted";
  } catch (const std::runtime_error &e) {
    EXPECT_NE(std::string(e.what()).find("beyond 5 hours"), std::string::npos) << e.what();
  }
}

/// The program would empty its log before it reads it.
TEST(Replay, TheProgramRefusesToWriteIntoItsLog) {
  const std::string log = testing::TempDir() + "replay." + std::to_string(getpid());
  const std::string other = log + ".other";
  std::ofstream(log, std::ios::binary) << recorded();
  ASSERT_EQ(link(log.c_str(), other.c_str()), 0);
  const auto status = [&](const std::string &transfers) {
    const std::string command = std::string(REPLAY_MACHINE) + ' ' + log + ' ' + transfers;
    return WEXITSTATUS(std::system((command + " > /dev/null 2>&1").c_str()));
  };
  EXPECT_EQ(status(log), 2);
  EXPECT_EQ(status(other), 2) << "the same file by another name";
  EXPECT_TRUE(read_file(log) == recorded());
  unlink(other.c_str());
  EXPECT_EQ(status(other), 0);
  unlink(other.c_str());
  unlink(log.c_str());
}

/// A changed byte is found, or changes a time. It never crashes.
TEST(Replay, SurvivesChangedBytes) {
  const std::string log = recorded();
  constexpr std::size_t kPlaces = 30;
  for (std::size_t place = 0; place < 2 * kPlaces; place++)
    for (const char mask : {'\x01', '\x15', '\x80', '\xff'}) {
      std::string changed = log;
      // Half of the places are at the beginning, where records of all kinds are.
      const std::size_t at =
          place < kPlaces ? place * 17 : (place - kPlaces) * (log.size() / kPlaces);
      changed[at] = static_cast<char>(changed[at] ^ mask);
      try {
        EXPECT_NE(replay_text(changed).difference, "") << at;
      } catch (const std::exception &) {
      }
    }
}

}  // namespace
}  // namespace drfq::hardware
