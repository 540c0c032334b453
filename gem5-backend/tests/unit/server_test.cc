// SPDX-License-Identifier: GPL-2.0-only
// The server under abuse. Everything is counted in turns and replies, so nothing depends on time.
#include "host/server.hh"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

namespace drfq {
namespace {

sockaddr_un address_of(const std::string &path) {
  sockaddr_un a = {};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, path.c_str(), path.size());
  return a;
}

/// A client that never waits.
class Client {
 public:
  explicit Client(const std::string &path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    const sockaddr_un a = address_of(path);
    if (connect(fd_, reinterpret_cast<const sockaddr *>(&a), sizeof a) != 0) throw fd_;
  }
  ~Client() { close(fd_); }
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;

  /// Sends frames until the socket takes no more; returns how many went.
  unsigned send(wire::Op op, std::uint64_t a = 0, std::uint64_t b = 0, unsigned frames = 1,
                const std::vector<unsigned char> &payload = {}) {
    wire::Header h;
    h.length = static_cast<std::uint32_t>(wire::kHeaderBytes + payload.size());
    h.op = static_cast<std::uint16_t>(op);
    h.a = a;
    h.b = b;
    return send(h, frames, payload);
  }

  unsigned send(const wire::Header &h, unsigned frames = 1,
                const std::vector<unsigned char> &payload = {}) {
    std::vector<unsigned char> frame(wire::kHeaderBytes);
    wire::encode(h, frame.data());
    frame.insert(frame.end(), payload.begin(), payload.end());
    for (unsigned n = 0; n < frames; n++)
      if (::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) return n;
    return frames;
  }

  void greet(wire::Role role = wire::Role::reader) {
    send(wire::Op::hello, wire::kVersion, static_cast<std::uint64_t>(role));
  }

  /// The replies that have come since the last call.
  std::vector<wire::Header> replies() {
    std::vector<wire::Header> out;
    unsigned char buffer[65536];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof buffer, 0)) >= 0;) {
      closed_ = closed_ || n == 0;
      if (n == 0) break;
      in_.insert(in_.end(), buffer, buffer + n);
    }
    for (wire::Header h; wire::find_frame(in_.data(), in_.size(), &h) == wire::Parse::frame;) {
      out.push_back(h);
      in_.erase(in_.begin(), in_.begin() + h.length);
    }
    return out;
  }

  bool closed() {
    replies();
    return closed_;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
  bool closed_ = false;
  std::vector<unsigned char> in_;
};

using Clients = std::vector<std::unique_ptr<Client>>;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    char dir[] = "/tmp/drfq-server-XXXXXX";
    if (mkdtemp(dir) == nullptr) throw std::runtime_error("mkdtemp failed");
    dir_ = dir;
    options_.path = dir_ + "/mc";
    options_.hello_s = 1e6;
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(dir_);
  }

  Server &server() {
    if (!server_) server_ = std::make_unique<Server>(options_, host_);
    return *server_;
  }

  void turn() { server().turn(0); }

  std::unique_ptr<Client> client() {
    server();
    return std::make_unique<Client>(options_.path);
  }

  Clients clients(unsigned n) {
    Clients all;
    for (unsigned i = 0; i < n; i++) all.push_back(client());
    return all;
  }

  std::unique_ptr<Client> greeted(wire::Role role = wire::Role::reader) {
    auto c = client();
    c->greet(role);
    turn();
    EXPECT_EQ(c->replies().size(), 1u);
    return c;
  }

  std::string dir_;
  ServerOptions options_;
  ModelHost host_{MemoryOptions()};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ClientsThatNeverSayHelloLockOutNobody) {
  const Clients silent = clients(1000);
  auto c = client();
  c->greet();
  // It waits behind all that came before it: so many turns as their admission takes.
  for (unsigned i = 0; i <= 1000 / Server::kAcceptMax; i++) turn();
  EXPECT_EQ(c->replies().size(), 1u);
  EXPECT_LE(server().clients(), Server::kSilentMax + 1);
  EXPECT_TRUE(silent[0]->closed());
}

TEST_F(ServerTest, AClientThatIsSilentForTooLongIsClosed) {
  EXPECT_EQ(ServerOptions().hello_s, 2) << "PROTOCOL.md";
  options_.hello_s = 0;
  auto silent = client();
  turn();
  EXPECT_TRUE(silent->closed());
  EXPECT_EQ(server().clients(), 0u);
}

TEST_F(ServerTest, AGreetedClientMayBeSilentForEver) {
  options_.hello_s = 0;
  auto c = greeted();
  c->send(wire::Op::peek, mmio::kId);
  turn();
  EXPECT_EQ(c->replies().size(), 1u);
}

TEST_F(ServerTest, AFloodOfPipelinedRequestsDelaysOthersByOneTurnOfEach) {
  Clients hostile;
  for (int i = 0; i < 40; i++) hostile.push_back(greeted());
  auto honest = greeted();
  for (auto &h : hostile) h->send(wire::Op::stats, 0, 0, 1000);
  for (int round = 0; round < 20; round++) {
    honest->send(wire::Op::peek, mmio::kId);
    turn();
    EXPECT_EQ(honest->replies().size(), 1u);
    for (auto &h : hostile) {
      EXPECT_LE(h->replies().size(), Service::Turn::kFrames);
      h->send(wire::Op::stats, 0, 0, 1000);
    }
  }
}

TEST_F(ServerTest, ReadersLeaveTheWritersPlaceFree) {
  Clients readers;
  for (std::size_t i = 1; i < Service::kGreetedMax; i++) readers.push_back(greeted());
  auto late = client();
  late->greet();
  turn();
  auto got = late->replies();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, static_cast<std::uint16_t>(wire::Status::full));
  auto writer = client();
  writer->greet(wire::Role::writer);
  turn();
  got = writer->replies();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, 0);
  // A place that becomes free is taken again.
  readers.pop_back();
  turn();
  late->greet();
  turn();
  got = late->replies();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, 0);
}

TEST_F(ServerTest, AHalfClosedClientGetsEveryReply) {
  auto c = greeted(wire::Role::writer);
  // Replies are read only when the server takes no more, so that it has many to send.
  unsigned sent = 0, got = 0;
  while (sent < 20000) {
    sent += c->send(wire::Op::peek, mmio::kId, 0, 20000 - sent);
    for (int i = 0; i < 100; i++) turn();
    if (c->send(wire::Op::peek, mmio::kId) != 0)
      sent++;
    else
      got += static_cast<unsigned>(c->replies().size());
  }
  shutdown(c->fd(), SHUT_WR);
  for (int i = 0; i < 10000 && server().clients() != 0; i++) {
    turn();
    got += static_cast<unsigned>(c->replies().size());
  }
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(c->closed());
}

TEST_F(ServerTest, WritesOfAClientThatLeavesAtOnceAreDone) {
  auto c = greeted(wire::Role::writer);
  unsigned sent = 0;
  while (c->send(wire::Op::write, mmio::kVtimePid + 8 * (sent + 1), sent + 1) != 0) sent++;
  EXPECT_GT(sent, Service::Turn::kFrames);
  c.reset();
  for (int i = 0; i < 1000 && server().clients() != 0; i++) turn();
  EXPECT_EQ(host_.registers().vtime_pid(sent), sent);
}

TEST_F(ServerTest, WithoutDescriptorsTheListenerRestsAndClientsAreServed) {
  auto c = greeted();
  Clients waiting = clients(20);
  rlimit old = {}, few = {};
  getrlimit(RLIMIT_NOFILE, &old);
  few = old;
  few.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int i = 0; i < 3; i++) {
    c->send(wire::Op::peek, mmio::kId);
    turn();
    EXPECT_EQ(c->replies().size(), 1u);
  }
  EXPECT_EQ(server().clients(), 1u);
  // The next turn has nothing to do. It sleeps, or it would spin.
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const long slept = usage.ru_nvcsw;
  server().turn(50);
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_GT(usage.ru_nvcsw, slept);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  for (int i = 0; i < 10 && server().clients() == 1; i++) server().turn(100);
  EXPECT_GT(server().clients(), 1u);
}

TEST_F(ServerTest, FieldsThatMustBeZeroEndTheConnection) {
  for (int i = 0; i < 3; i++) {
    auto c = greeted();
    wire::Header h;
    h.op = static_cast<std::uint16_t>(wire::Op::peek);
    if (i == 0) h.status = 1;
    if (i == 1) h.time_ps = 1;
    if (i == 2) h.zero = 1;
    c->send(h);
    turn();
    const auto got = c->replies();
    ASSERT_EQ(got.size(), 1u) << i;
    EXPECT_EQ(got[0].status, static_cast<std::uint16_t>(wire::Status::malformed));
    EXPECT_TRUE(c->closed());
  }
}

TEST_F(ServerTest, APayloadWhereNoneBelongsIsRefused) {
  auto c = greeted();
  for (wire::Op op : {wire::Op::hello, wire::Op::read, wire::Op::write, wire::Op::peek,
                      wire::Op::advance, wire::Op::stats, wire::Op::subscribe}) {
    c->send(op, 1, 0, 1, {1, 2, 3});
    turn();
    const auto got = c->replies();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].status, static_cast<std::uint16_t>(wire::Status::bad_value));
  }
}

TEST_F(ServerTest, AMalformedClientThatReadsNothingLosesItsPlace) {
  options_.hello_s = 0;
  auto c = greeted();
  c->send(wire::Op::stats, 0, 0, 5000);
  for (int i = 0; i < 500; i++) turn();
  ASSERT_EQ(server().clients(), 1u);
  c->replies();
  wire::Header bad;
  bad.zero = 1;
  c->send(bad);
  for (int i = 0; i < 1000 && server().clients() != 0; i++) {
    if (i < 400) c->replies();
    turn();
  }
  EXPECT_EQ(server().clients(), 0u);
}

std::vector<unsigned char> demand(std::uint32_t substream, std::uint64_t rate) {
  wire::DemandRecord r;
  r.substream = substream;
  r.bytes_per_s = rate;
  r.outstanding_lines = 1;
  r.write_percent = 50;
  std::vector<unsigned char> bytes(wire::kDemandRecordBytes);
  wire::encode(r, bytes.data());
  return bytes;
}

TEST_F(ServerTest, EndedDemandsFreeTheirPlaces) {
  auto c = greeted(wire::Role::writer);
  for (std::uint32_t round = 0; round < 3; round++)
    for (const std::uint64_t rate : {1u, 0u}) {
      std::vector<unsigned char> all;
      for (std::uint32_t i = 0; i < host_.agents_max(); i++) {
        const auto one = demand(1 + i + 1000 * round, rate);
        all.insert(all.end(), one.begin(), one.end());
      }
      c->send(wire::Op::demand, 0, 0, 1, all);
      turn();
      const auto got = c->replies();
      ASSERT_EQ(got.size(), 1u);
      EXPECT_EQ(got[0].status, 0);
      EXPECT_EQ(got[0].a, rate != 0 ? host_.agents_max() : 0);
    }
}

/// The lines that each port has asked for.
struct Lines : Observer {
  void arrived(Ps, const Packet &p, Admission) override {
    shared += ports.emplace(p.address % capacity, p.port).first->second != p.port;
  }
  std::uint64_t capacity = MemoryOptions().timing.capacity_bytes();
  std::map<std::uint64_t, std::uint32_t> ports;
  unsigned shared = 0;
};

TEST_F(ServerTest, NoRequestBeginsAfter64KiBInATurn) {
  auto c = greeted(wire::Role::writer);
  std::vector<unsigned char> all;
  while (all.size() < 8000) {
    const auto one = demand(1, 0);
    all.insert(all.end(), one.begin(), one.end());
  }
  // The requests wait behind an advance, so the first turn after it has more than it may handle.
  c->send(wire::Op::advance, 2 * kPsPerMs);
  for (int i = 0; i < 15; i++) {
    EXPECT_EQ(c->send(wire::Op::demand, 0, 0, 1, all), 1u);
    turn();
  }
  const std::size_t frame = wire::kHeaderBytes + all.size();
  const std::size_t most = (64 * 1024 + frame - 1) / frame;
  std::size_t got = 0, in_a_turn = 0;
  for (int i = 0; i < 100 && got < 15; i++) {
    turn();
    std::size_t now = 0;
    for (const wire::Header &h : c->replies())
      now += wire::Op(h.op & ~wire::kReply) == wire::Op::demand;
    in_a_turn = std::max(in_a_turn, now);
    got += now;
  }
  EXPECT_EQ(got, 15u);
  EXPECT_LE(in_a_turn, most);
  EXPECT_GT(in_a_turn, most / 2);
}

TEST_F(ServerTest, DemandsOfOneSeedUseNoMemoryOfOthers) {
  Lines lines;
  host_.memory().observe(&lines);
  auto c = greeted(wire::Role::writer);
  std::vector<unsigned char> all;
  for (std::uint32_t i = 0; i < host_.agents_max(); i++) {
    const auto one = demand(1 + i, 100000000);
    all.insert(all.end(), one.begin(), one.end());
  }
  c->send(wire::Op::demand, 0, 0, 1, all);
  c->send(wire::Op::advance, kPsPerMs);
  for (int i = 0; i < 20; i++) turn();
  EXPECT_GT(lines.ports.size(), 10 * host_.agents_max());
  EXPECT_EQ(lines.shared, 0u);
}

TEST_F(ServerTest, DemandsOfTheLastWriterEndWithTheFirstOfTheNext) {
  auto first = greeted(wire::Role::writer);
  first->send(wire::Op::demand, 0, 0, 1, demand(9, 1000000000));
  turn();
  EXPECT_EQ(first->replies().at(0).a, 1u);
  first.reset();
  turn();
  auto second = greeted(wire::Role::writer);
  second->send(wire::Op::advance, kPsPerMs);
  second->send(wire::Op::read, mmio::kTraffic + 8 * 9);
  second->send(wire::Op::demand, 0, 0, 1, demand(10, 1000000000));
  second->send(wire::Op::advance, kPsPerMs);
  second->send(wire::Op::peek, mmio::kTraffic + 8 * 9);
  for (int i = 0; i < 30; i++) turn();
  const auto got = second->replies();
  ASSERT_EQ(got.size(), 5u);
  EXPECT_GT(got[1].b, 0u);
  EXPECT_EQ(got[2].a, 1u);
  EXPECT_LE(got[4].b, 64u);
}

TEST_F(ServerTest, WriterMayFollowOneThatHungUpInTheSameTurn) {
  auto first = greeted(wire::Role::writer);
  first.reset();
  auto second = client();
  second->greet(wire::Role::writer);
  turn();
  EXPECT_EQ(second->replies().at(0).status, static_cast<std::uint16_t>(wire::Status::ok));
}

TEST_F(ServerTest, AFreeRunningServerReachesARateAbove10) {
  options_.mode = Service::Mode::free_running;
  options_.rate = 1000;
  auto c = greeted(wire::Role::writer);
  // With traffic to come the time is not skipped.
  c->send(wire::Op::demand, 0, 0, 1, demand(9, 1000));
  turn();
  Ps most = 0;
  for (int i = 0; i < 1000 && most <= 11 * kPsPerMs; i++) {
    usleep(1000);
    const Ps before = host_.now();
    turn();
    most = std::max(most, host_.now() - before);
  }
  EXPECT_GT(most, 11 * kPsPerMs);
}

TEST_F(ServerTest, AFreeRunningServerDropsTimeThatItIsBehind) {
  options_.mode = Service::Mode::free_running;
  auto c = greeted(wire::Role::writer);
  c->send(wire::Op::demand, 0, 0, 1, demand(9, 1000));
  for (int i = 0; i < 3; i++) {
    turn();
    const Ps before = host_.now();
    usleep(30000);
    turn();
    EXPECT_LE(host_.now() - before, 10 * kPsPerMs);
  }
}

TEST_F(ServerTest, AFreeRunningServerWithoutTrafficKeepsItsRate) {
  options_.mode = Service::Mode::free_running;
  options_.rate = 1000;
  server();
  usleep(100000);
  for (int i = 0; i < 5; i++) turn();
  EXPECT_GE(host_.now(), 100 * 1000 * kPsPerMs);
}

TEST_F(ServerTest, AFreeRunningServerCatchesUpInSeveralTurns) {
  options_.mode = Service::Mode::free_running;
  options_.rate = 1000;
  auto c = greeted();
  c->send(wire::Op::subscribe, wire::kSubscribePsMin);
  turn();
  const Ps all = host_.now() + 300 * 1000 * kPsPerMs;
  usleep(300000);
  turn();
  EXPECT_LT(host_.now(), all) << "3 million events in a turn";
  c->send(wire::Op::subscribe, 0);
  for (int i = 0; i < 10; i++) turn();
  EXPECT_GE(host_.now(), all) << "nothing was dropped";
}

TEST_F(ServerTest, AFreeRunningServerPushesAtEachIntervalAndTakesNoAdvance) {
  options_.mode = Service::Mode::free_running;
  auto c = client();
  c->greet();
  turn();
  EXPECT_EQ(c->replies().at(0).b & 1, 0u) << "not in lock-step";
  c->send(wire::Op::subscribe, kPsPerMs);
  std::vector<wire::Header> got;
  for (int i = 0; i < 10000 && got.size() < 4; i++) {
    usleep(1000);
    turn();
    for (const wire::Header &h : c->replies()) got.push_back(h);
  }
  ASSERT_GE(got.size(), 4u);
  for (std::size_t i = 1; i < got.size(); i++)
    EXPECT_EQ(got[i].time_ps, got[0].time_ps + i * kPsPerMs);
  auto writer = greeted(wire::Role::writer);
  writer->send(wire::Op::advance, 1);
  turn();
  EXPECT_EQ(writer->replies().at(0).status, static_cast<std::uint16_t>(wire::Status::wrong_mode));
}

TEST_F(ServerTest, AnAdvanceBeyondTheLastTimeIsRefused) {
  auto c = greeted(wire::Role::writer);
  host_.run_until(Service::kLastPs - kPsPerMs);
  for (const Ps ps : {2 * kPsPerMs, kPsPerMs, Ps{1}}) c->send(wire::Op::advance, ps);
  for (int i = 0; i < 20; i++) turn();
  const auto got = c->replies();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].status, static_cast<std::uint16_t>(wire::Status::bad_value));
  EXPECT_EQ(got[1].status, 0);
  EXPECT_EQ(got[1].a, Service::kLastPs);
  EXPECT_EQ(got[2].status, static_cast<std::uint16_t>(wire::Status::bad_value));
}

TEST_F(ServerTest, AFreeRunningServerEndsAtTheLastTime) {
  options_.mode = Service::Mode::free_running;
  server();
  host_.run_until(Service::kLastPs - kPsPerMs);
  usleep(2000);
  for (int i = 0; i < 10 && host_.now() != Service::kLastPs; i++) turn();
  EXPECT_EQ(host_.now(), Service::kLastPs);
  EXPECT_THROW(turn(), std::runtime_error);
}

TEST_F(ServerTest, ALivePathIsNotTakenOver) {
  server();
  EXPECT_THROW(Server(options_, host_), std::runtime_error);
  auto c = greeted();
  // Not even when its socket file is gone.
  ASSERT_EQ(unlink(options_.path.c_str()), 0);
  EXPECT_THROW(Server(options_, host_), std::runtime_error);
}

TEST_F(ServerTest, AStaleSocketIsReplacedAndAllIsRemovedAtTheEnd) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un a = address_of(options_.path);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr *>(&a), sizeof a), 0);
  close(fd);
  greeted();
  server_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(ServerTest, FilesOfOthersAreNeverRemoved) {
  const sockaddr_un a = address_of(options_.path);
  // A live socket of another type.
  const int datagram = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  ASSERT_EQ(bind(datagram, reinterpret_cast<const sockaddr *>(&a), sizeof a), 0);
  EXPECT_THROW(Server(options_, host_), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(options_.path));
  close(datagram);
  unlink(options_.path.c_str());
  // A socket that came to the name after ours was removed.
  server();
  ASSERT_EQ(unlink(options_.path.c_str()), 0);
  const int other = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(other, reinterpret_cast<const sockaddr *>(&a), sizeof a), 0);
  server_.reset();
  EXPECT_TRUE(std::filesystem::exists(options_.path));
  close(other);
}

}  // namespace
}  // namespace drfq
