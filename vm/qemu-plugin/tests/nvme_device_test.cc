// SPDX-License-Identifier: GPL-2.0-only
// The device in the vCPUs' time, on a fake QEMU, and the PCI function that a client sees.
#include "qemu-plugin/nvme_device.hh"

#include <gtest/gtest.h>
#include <linux/vfio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_qemu.hh"
#include "hardware/dma_engine.hh"
#include "hardware/tests/program_runner.hh"

namespace drfq::plugin {
namespace {

hardware::MachineDescription with_storage() {
  hardware::MachineDescription d = hardware::shipped("disk");
  d.prefetch.kind = hardware::PrefetcherConfig::Kind::none;
  return d;
}

/// Notes when each transfer completes and on which vCPU's thread.
class Recorder final : public VcpuScheduler::Device {
 public:
  struct Call {
    unsigned vcpu;
    std::uint64_t id;
    Ps due, now;
  };
  void finish(Vcpu &vcpu, const hardware::FinishedTransfer &t, Ps now) override {
    calls.push_back({vcpu.index, t.id, t.due, now});
  }
  std::vector<Call> calls;
};

class DeviceTimeTest : public testing::Test {
 protected:
  explicit DeviceTimeTest(const hardware::MachineDescription &d = with_storage())
      : hardware_(d), scheduler_(hardware_, 4, std::chrono::hours(1)) {
    fake = FakeQemu{};
    for (unsigned c = 0; c < 4; c++) vcpus_.push_back(fake_vcpu(c, &counters_[c]));
    scheduler_.attach(&recorder_);
    scheduler_.start(kPsPerMs, nullptr, 0);
  }
  bool turn(unsigned c) { return scheduler_.take_turn(vcpus_[c], vcpus_[c].retired()); }
  void start(std::uint64_t id, std::uint64_t bytes, unsigned target) {
    hardware_.start_transfer(0, vcpus_[0].retired().total(),
                             {id, Dir::write, {{1 << 20, bytes}}, target});
  }

  hardware::HardwareModel hardware_;
  VcpuScheduler scheduler_;
  Recorder recorder_;
  InlineCounters counters_[4] = {};
  std::vector<Vcpu> vcpus_;
};

/// Its completions are due as soon as a description may say.
class FastDeviceTest : public DeviceTimeTest {
 protected:
  FastDeviceTest() : DeviceTimeTest(fast()) {}
  static hardware::MachineDescription fast() {
    hardware::MachineDescription d = with_storage();
    d.storage.latency = hardware::DmaEngine::lookahead(d);
    return d;
  }
};

TEST_F(DeviceTimeTest, IdleTimeJumpsToTheCompletion) {
  turn(0);
  start(1, 128 << 10, 0);
  turn(0);
  unsigned halts = 0;
  for (; recorder_.calls.empty() && halts < 100; halts++)
    ASSERT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::skip);
  ASSERT_EQ(recorder_.calls.size(), 1u);
  EXPECT_EQ(recorder_.calls[0].now, recorder_.calls[0].due);
  // The last line counts once it leaves, for memory takes it at once.
  const Ps transfer =
      ((128 << 10) - hardware::kLineBytes) * hardware_.description().storage.fs_per_byte / 1000;
  EXPECT_GE(recorder_.calls[0].due, kPsPerMs + hardware_.description().storage.latency + transfer);
  EXPECT_LE(halts, 10u) << "each halt passes up to a millisecond";
}

TEST_F(DeviceTimeTest, ABusyTargetTakesItsCompletionWhenItsClockGetsThere) {
  turn(0);
  start(1, 4096, 0);
  while (recorder_.calls.empty()) {
    counters_[0].insns[0] += kTurnThreshold - counters_[0].turn_counter;
    turn(0);
  }
  const Recorder::Call c = recorder_.calls[0];
  EXPECT_GE(c.now, c.due);
  EXPECT_LE(c.now - c.due, 200 * hardware_.description().fs_per_insn() / 1000 + kPsPerUs)
      << "its chunk ends when the completion is due";
}

TEST_F(DeviceTimeTest, ATargetThatHaltsBeforeItsCompletionIsServedOnTime) {
  turn(0);
  turn(1);
  // The completion is due in the middle of a chunk.
  const Ps middle = hardware_.description().quantum / 2;
  hardware_.start_transfer(0, middle * 1000 / hardware_.description().fs_per_insn(),
                           {1, Dir::write, {{1 << 20, 64}}, 1});
  const auto run = [&](unsigned c) {
    counters_[c].insns[0] += kTurnThreshold - counters_[c].turn_counter;
    turn(c);
  };
  const Ps due = kPsPerMs + middle + hardware_.description().storage.latency;
  while (hardware_.now(0, vcpus_[0].retired().total()) + middle < due) {
    run(0);
    run(1);
  }
  ASSERT_TRUE(recorder_.calls.empty());
  ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  while (recorder_.calls.empty()) run(0);
  EXPECT_LE(recorder_.calls[0].now - recorder_.calls[0].due, kPsPerUs);
}

TEST_F(DeviceTimeTest, AnotherVcpuCompletesForATargetThatIsHalted) {
  turn(0);
  start(1, 4096, 2);
  while (recorder_.calls.empty()) {
    counters_[0].insns[0] += kTurnThreshold - counters_[0].turn_counter;
    turn(0);
  }
  EXPECT_EQ(recorder_.calls[0].vcpu, 0u);
  for (unsigned quantum = 0; quantum < 3; quantum++) {
    counters_[0].insns[0] += kTurnThreshold - counters_[0].turn_counter;
    EXPECT_TRUE(turn(0)) << "no interrupt was sent, so nobody waits for the target";
  }
}

TEST_F(DeviceTimeTest, AHaltedTargetIsServedWhenDueAndNotAtTheDeliverersClock) {
  turn(0);
  turn(1);
  start(1, 64, 2);
  const Ps quantum = hardware_.description().quantum;
  const auto run = [&](unsigned c, Ps time) {
    counters_[c].insns[0] += time * 1000 / hardware_.description().fs_per_insn();
    turn(c);
  };
  const Ps due = kPsPerMs + hardware_.description().storage.latency;
  while (hardware_.now(0, vcpus_[0].retired().total()) + quantum / 2 < due)
    for (unsigned c : {0u, 1u}) run(c, quantum / 4);
  ASSERT_TRUE(recorder_.calls.empty());
  // vCPU 0 passes the end of its chunk, as a string instruction does.
  run(0, quantum * 3 / 4);
  ASSERT_EQ(recorder_.calls.size(), 1u);
  EXPECT_GT(hardware_.now(0, vcpus_[0].retired().total()), recorder_.calls[0].due);
  EXPECT_EQ(recorder_.calls[0].now, recorder_.calls[0].due);
}

/// Each of its loads takes half a quantum, because bandwidth allocation delays them.
TEST_F(DeviceTimeTest, AThrottledTargetTakesItsCompletionOnTime) {
  namespace msr = hardware::msr;
  turn(0);
  ASSERT_EQ(hardware_.wrmsr(0, {}, msr::kPqrAssoc, std::uint64_t{1} << 32),
            hardware::MsrResult::handled);
  ASSERT_EQ(hardware_.wrmsr(0, {}, msr::kMbaDelay + 1, 90), hardware::MsrResult::handled);
  std::uint64_t line = 0;
  const auto load = [&] {
    const std::uint64_t insns = ++counters_[0].insns[0];
    if (hardware_.access(0, insns, line++ * hardware::kLineBytes, 8, hardware::AccessKind::load,
                         Ring::kernel) == hardware::AccessResult::sync)
      vcpus_[0].request_turn();
    if (++counters_[0].turn_counter >= kTurnThreshold) turn(0);
  };
  // The first chunk is long: no stall is known yet.
  while (line < 3000) load();
  for (std::uint64_t id = 1; id <= 5; id++) {
    start(id, 4096, 0);
    while (recorder_.calls.size() < id) load();
    const Recorder::Call c = recorder_.calls.back();
    EXPECT_LE(c.now - c.due, hardware_.description().quantum);
  }
}

TEST_F(FastDeviceTest, IdleTimeJumpsToACompletionThatAnotherVcpuAskedForLater) {
  turn(0);
  turn(1);
  // vCPU 1 leads. Its doorbell is not played back before vCPU 0 gets there.
  counters_[1].insns[0] += 3000;
  hardware_.start_transfer(1, 3000, {1, Dir::write, {{1 << 20, 64}}, 1});
  ASSERT_EQ(scheduler_.halt(vcpus_[1], vcpus_[1].retired()), VcpuScheduler::Halt::sleep);
  EXPECT_TRUE(hardware_.device_is_busy());
  for (unsigned halts = 0; recorder_.calls.empty() && halts < 100; halts++)
    ASSERT_EQ(scheduler_.halt(vcpus_[0], vcpus_[0].retired()), VcpuScheduler::Halt::skip);
  ASSERT_EQ(recorder_.calls.size(), 1u);
  EXPECT_EQ(recorder_.calls[0].now, recorder_.calls[0].due);
}

/// A client of the PCI function, as QEMU is.
class Client {
 public:
  explicit Client(const std::string &path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    path.copy(a.sun_path, sizeof a.sun_path - 1);
    connected_ = connect(fd_, reinterpret_cast<sockaddr *>(&a), sizeof a) == 0;
    const timeval patience{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Client() { close(fd_); }
  bool connected() const { return connected_; }

  struct Answer {
    std::uint16_t id = 0, command = 0;
    std::uint32_t size = 0, flags = 0, error = 0;
    std::vector<std::uint8_t> body;
  };
  /// Sends a message and returns the answer; size 0: the connection has ended.
  Answer ask(std::uint16_t command, const std::vector<std::uint32_t> &words) {
    Answer a;
    tell(command, words, 0);
    std::uint32_t header[4];
    if (recv(fd_, header, sizeof header, MSG_WAITALL) != sizeof header) return a;
    a.id = static_cast<std::uint16_t>(header[0]);
    a.size = header[1];
    a.flags = header[2];
    a.error = header[3];
    a.body.resize(a.size - sizeof header);
    if (!a.body.empty()) recv(fd_, a.body.data(), a.body.size(), MSG_WAITALL);
    return a;
  }
  /// Sends a message.
  void tell(std::uint16_t command, const std::vector<std::uint32_t> &words, std::uint32_t flags) {
    std::vector<std::uint32_t> out = {std::uint32_t{command} << 16 | 7,
                                      static_cast<std::uint32_t>(16 + 4 * words.size()), flags, 0};
    out.insert(out.end(), words.begin(), words.end());
    send(fd_, out.data(), 4 * out.size(), MSG_NOSIGNAL);
  }
  std::uint32_t read_config(std::uint32_t offset) {
    const Answer a = ask(9, {offset, 0, VFIO_PCI_CONFIG_REGION_INDEX, 4});
    std::uint32_t value = ~0u;
    if (a.body.size() == 20) std::memcpy(&value, &a.body[16], sizeof value);
    return value;
  }
  void write_config(std::uint32_t offset, std::uint32_t value) {
    ask(10, {offset, 0, VFIO_PCI_CONFIG_REGION_INDEX, 4, value});
  }

 private:
  int fd_;
  bool connected_ = false;
};

class FunctionTest : public testing::Test {
 protected:
  FunctionTest()
      : path_(testing::TempDir() + "function." + std::to_string(getpid())),
        // Its thread lives as long as the process.
        server_(*new VfioUserServer(path_, 0x010802, 5)),
        client_(path_) {
    unlink(path_.c_str());
  }
  std::string path_;
  VfioUserServer &server_;
  Client client_;
};

TEST_F(FunctionTest, TheConfigurationIsThatOfAnNvmeController) {
  ASSERT_TRUE(client_.connected());
  EXPECT_EQ(client_.read_config(8) >> 8, 0x010802u);
  EXPECT_EQ(client_.read_config(0x40), 4u << 16 | 0x11) << "MSI-X with 5 vectors";
  client_.write_config(8, ~0u);
  EXPECT_EQ(client_.read_config(8) >> 8, 0x010802u) << "read-only";
  client_.write_config(0x14, 0x80);
  client_.write_config(0x10, 0xfe000000);
  EXPECT_EQ(server_.address(), 0x80fe000000u);
}

TEST_F(FunctionTest, AMessageThatWantsNoReplyGetsNone) {
  constexpr std::uint32_t kNoReply = 0x10;
  client_.tell(10, {0x3c, 0, VFIO_PCI_CONFIG_REGION_INDEX, 4, 0x5a}, kNoReply);
  client_.tell(2, {}, kNoReply);
  EXPECT_EQ(client_.read_config(0x3c) & 0xff, 0x5au) << "the next answer is to the next question";
}

TEST_F(FunctionTest, BadMessagesAreRefusedAndGoodOnesStillWork) {
  constexpr std::uint32_t kError = 0x20;
  EXPECT_NE(client_.ask(99, {}).flags & kError, 0u);
  EXPECT_NE(client_.ask(9, {0, 1, VFIO_PCI_CONFIG_REGION_INDEX, 4}).flags & kError, 0u);
  EXPECT_NE(client_.ask(9, {0xfffffffc, 0xffffffff, 0, 8}).flags & kError, 0u);
  EXPECT_NE(client_.ask(9, {0, 0, 3, 4}).flags & kError, 0u);
  EXPECT_NE(client_.ask(10, {0, 0, 0, 0x1000}).flags & kError, 0u) << "its data is missing";
  for (const std::uint16_t command : {1, 2, 3, 4, 5, 7, 8, 13})
    EXPECT_NE(client_.ask(command, {}).size, 0u) << command;
  EXPECT_EQ(client_.read_config(8) >> 8, 0x010802u);
}

}  // namespace
}  // namespace drfq::plugin
