// SPDX-License-Identifier: GPL-2.0-only
// Input logs: what they hold is enough to compute a machine's times again.
#include "replay.hh"

#include <gtest/gtest.h>

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

std::string description() { return read_file(std::string(MACHINES) + "/disk.toml"); }

/// Two copies of different classes and registers, and a device that moves data beside them.
/// finished: what the emulator was told.
std::string record(std::vector<FinishedTransfer> *finished) {
  const MachineDescription d = load_machine_description("disk", description());
  std::string log;
  ProgramRunner r(
      d, std::make_unique<InputLog>(std::make_unique<StringFile>(&log), description(), d.cores));
  r.put(0, scattered(copier(0, 8 * kMiB, 8 * kMiB)));
  r.put(1, scattered(delayed(5000, copier(32 * kMiB, 40 * kMiB, 8 * kMiB))));
  EXPECT_EQ(r.hardware.wrmsr(1, r.retired(1), msr::kPqrAssoc, std::uint64_t{1} << 32 | 3),
            MsrResult::handled);
  EXPECT_EQ(r.hardware.wrmsr(0, r.retired(0), msr::kMbaDelay + 1, 50), MsrResult::handled);
  for (std::uint64_t i = 0; i < kTransfers; i++) {
    r.hardware.start_transfer(
        i % 2, r.insns(i % 2),
        {i, i % 3 == 0 ? Dir::read : Dir::write, {{(64 + i) * kMiB, 65536}, {8 * kMiB, 512}}, 1});
    r.run_to((i + 1) * 2 * kPsPerMs);
    for (const FinishedTransfer &t : r.hardware.take_finished()) finished->push_back(t);
  }
  r.run_to(20 * kPsPerMs);
  for (const FinishedTransfer &t : r.hardware.take_finished()) finished->push_back(t);
  r.hardware.record(nullptr);
  return log;
}

const std::string &recorded() {
  static std::vector<FinishedTransfer> finished;
  static const std::string log = record(&finished);
  EXPECT_EQ(finished.size(), kTransfers);
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

/// The emulator's threads call whenever the host runs them.
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
}

/// A changed byte is found, or changes a time. It never crashes.
TEST(Replay, SurvivesAnyByte) {
  const std::string log = recorded();
  const std::size_t first = log.find('\n') + description().size() + 1;
  for (std::size_t at = first; at < std::min(log.size(), first + 400); at++) {
    std::string changed = log;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    try {
      EXPECT_NE(replay_text(changed).difference, "") << at;
    } catch (const std::runtime_error &) {
    }
  }
}

}  // namespace
}  // namespace drfq::hardware
