// SPDX-License-Identifier: GPL-2.0-only
// The whole channel under random traffic: what must hold whatever comes.
#include "model/memory.hh"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace drfq {
namespace {

class Sink : public Listener, public Observer {
 public:
  void completed(const Completion &c) override {
    EXPECT_GE(c.at, last_);
    EXPECT_EQ(done_.count(c.cookie), 0u) << "answered twice";
    last_ = c.at;
    done_[c.cookie] = c;
  }
  void room(Dir, Ps) override { rooms_++; }
  void issued(Ps, const Entry &e, const Choice &c, const Dram::Burst &b) override {
    EXPECT_GE(b.data_end - burst_, data_end_) << "the bus carries two bursts";
    data_end_ = b.data_end;
    bursts_[index(c.dir)]++;
    const Queue *rest = memory_ != nullptr ? &memory_->controller().queue(c.dir) : nullptr;
    if (rest != nullptr && !b.row_hit && !rest->empty()) {
      EXPECT_TRUE(before(e, rest->head())) << "a miss went before its queue's head";
      misses_++;
    }
  }
  std::map<std::uint64_t, Completion> done_;
  Ps last_ = 0, data_end_ = 0, burst_ = 7500;
  std::uint64_t bursts_[2] = {0, 0};
  unsigned rooms_ = 0;
  const Memory *memory_ = nullptr;  ///< set: check the order of service
  unsigned misses_ = 0;
};

struct Case {
  Policy policy;
  Ports ports;
};

class RandomTraffic : public ::testing::TestWithParam<Case> {};

TEST_P(RandomTraffic, NothingIsLostOrMadeUp) {
  for (unsigned seed = 0; seed < 20; seed++) {
    std::mt19937 rng(seed);
    MemoryOptions o;
    o.controller.policy = GetParam().policy;
    o.ports = GetParam().ports;
    o.controller.aging = seed % 2 ? 2000000 : 0;
    o.controller.admission = seed % 4 < 2 ? AdmissionRule::share : AdmissionRule::thesis;
    Memory m(o);
    Sink sink;
    m.listen(&sink);
    m.observe(&sink);
    for (unsigned i = 0; i < 4; i++)
      m.controller().registers().write(mmio::kPidCore + 8 * i, i + 2);
    std::uint64_t accepted = 0, bytes[6] = {}, cleared[6] = {};
    for (int i = 0; i < 20000; i++) {
      const unsigned core = rng() % 5;  // core 4 does not exist: pid 1
      Packet p;
      p.address = (rng() % 4096) * 32;
      p.bytes = rng() % 8 == 0 ? 1 + rng() % 256 : 64;
      p.dir = rng() % 3 == 0 ? Dir::write : Dir::read;
      p.label = Label::of_core(core);
      p.port = core;
      p.cookie = static_cast<std::uint64_t>(i);
      const unsigned pid = core < 4 ? core + 2 : kSharedPid;
      if (m.submit(p, m.now() + rng() % 40000) == Admission::accepted) {
        accepted++;
        bytes[pid] += p.bytes;
      }
      if (rng() % 50 == 0)
        m.controller().registers().write(mmio::kVtimeCore + 8 * (rng() % 4), rng() % 6);
      if (rng() % 50 == 0) {
        std::uint64_t v = 0;
        const unsigned read_pid = rng() % 6;
        m.controller().registers().read(mmio::kTraffic + 8 * read_pid, &v);
        cleared[read_pid] += v;
      }
    }
    m.drain(true);
    m.advance(m.now() + 10 * kPsPerMs);
    EXPECT_EQ(sink.done_.size(), accepted);
    EXPECT_EQ(m.next_event(), kNever) << "something is left behind";
    const Stats &s = m.stats();
    for (unsigned pid = 0; pid < 6; pid++) {
      EXPECT_EQ(s.bytes[0][pid] + s.bytes[1][pid], bytes[pid]);
      EXPECT_EQ(cleared[pid] + m.controller().registers().traffic(pid), bytes[pid])
          << "clear-on-read is not exact";
    }
    EXPECT_EQ(s.bursts[0], sink.bursts_[0]);
    EXPECT_EQ(s.bursts[1], sink.bursts_[1]);
    EXPECT_GT(s.forwarded + s.merged, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomTraffic,
                         ::testing::Values(Case{Policy::lvtf, Ports::multi},
                                           Case{Policy::lvtf, Ports::single},
                                           Case{Policy::frfcfs, Ports::multi},
                                           Case{Policy::frfcfs, Ports::single}),
                         [](const auto &i) {
                           return std::string(name(i.param.policy)) +
                                  (i.param.ports == Ports::multi ? "_multi" : "_single");
                         });

TEST(Memory, AMissNeverGoesBeforeALowerVirtualTime) {
  MemoryOptions o;
  Memory m(o);
  Sink sink;
  m.listen(&sink);
  m.observe(&sink);
  for (unsigned i = 0; i < 4; i++) {
    m.controller().registers().write(mmio::kPidCore + 8 * i, i + 2);
    m.controller().registers().write(mmio::kVtimeCore + 8 * i, 10 + i);
  }
  std::mt19937 rng(3);
  sink.memory_ = &m;
  for (int i = 0; i < 20000; i++) {
    Packet p;
    p.address = (rng() % 100000) * 1024;
    p.bytes = 32;
    p.dir = rng() % 3 == 0 ? Dir::write : Dir::read;
    p.label = Label::of_core(rng() % 4);
    p.cookie = static_cast<std::uint64_t>(i);
    m.submit(p, m.now() + rng() % 20000);
  }
  EXPECT_GT(sink.misses_, 1000u) << "too few to mean anything";
}

TEST(Memory, ALoneReadTakesItsLatency) {
  MemoryOptions o;
  Memory m(o);
  Sink sink;
  m.listen(&sink);
  Packet p;
  p.bytes = 32;
  ASSERT_EQ(m.submit(p, 1000), Admission::accepted);
  m.advance(kPsPerUs);
  const Timing t = o.timing;
  EXPECT_EQ(sink.done_[0].at, 1000 + t.rcd + t.cl + t.burst + t.frontend + t.backend);
}

TEST(Memory, AWriteIsAcknowledgedAtOnceAndReadsSeeIt) {
  MemoryOptions o;
  o.controller.policy = Policy::frfcfs;  // leaves a lone write in its queue
  Memory m(o);
  Sink sink;
  m.listen(&sink);
  Packet p;
  p.dir = Dir::write;
  m.submit(p, 0);
  m.advance(kPsPerUs);
  EXPECT_EQ(sink.done_[0].at, o.timing.frontend);
  p.dir = Dir::read;
  p.cookie = 1;
  m.submit(p, 2 * kPsPerUs);
  m.advance(3 * kPsPerUs);
  EXPECT_EQ(sink.done_[1].at, 2 * kPsPerUs + o.timing.frontend);
  EXPECT_EQ(m.stats().forwarded, 2u);
  p.dir = Dir::write;
  p.cookie = 2;
  m.submit(p, 4 * kPsPerUs);
  EXPECT_EQ(m.stats().merged, 2u);
  EXPECT_EQ(m.controller().queue(Dir::write).size(), 2u);
}

TEST(Memory, AWriteThatWaitsForMoreIsServedOnceItIsOverdue) {
  for (bool batch : {false, true}) {
    MemoryOptions o;
    o.controller.batch = batch;
    Memory m(o);
    Packet p;
    p.dir = Dir::write;
    EXPECT_EQ(m.submit(p, 0), Admission::accepted);
    m.advance(o.controller.aging);
    EXPECT_EQ(m.stats().bursts[index(Dir::write)], batch ? 0u : 2u);
    m.advance(o.controller.aging + kPsPerUs);
    EXPECT_EQ(m.stats().bursts[index(Dir::write)], 2u);
  }
}

TEST(Memory, WithOnePortARefusedPacketHoldsEverybodyUp) {
  for (Ports ports : {Ports::multi, Ports::single}) {
    MemoryOptions o;
    o.ports = ports;
    Memory m(o);
    Packet p;
    p.port = 1;
    Admission a = Admission::accepted;
    for (int i = 0; a == Admission::accepted; i++) {
      p.address = static_cast<std::uint64_t>(i) * 64;
      a = m.submit(p, 0);
    }
    EXPECT_EQ(a, Admission::reserved);
    p.port = 2;
    p.dir = Dir::write;
    EXPECT_EQ(m.submit(p, 0), ports == Ports::multi ? Admission::accepted : Admission::blocked);
    m.drop(2);
    EXPECT_EQ(m.submit(p, 0), ports == Ports::multi ? Admission::accepted : Admission::blocked)
        << "port 2 holds nothing";
    m.drop(1);
    EXPECT_EQ(m.submit(p, 0), Admission::accepted);
  }
}

TEST(Memory, ImpossiblePacketsAreAnError) {
  Memory m{MemoryOptions()};
  Packet p;
  p.bytes = 0;
  EXPECT_THROW(m.submit(p, 0), std::length_error);
  p.bytes = m.max_packet_bytes() + 1;
  EXPECT_THROW(m.submit(p, 0), std::length_error);
  p.bytes = 64;
  p.address = ~std::uint64_t{0} - 62;
  EXPECT_THROW(m.submit(p, 0), std::length_error) << "it wraps";
  p.address--;
  EXPECT_EQ(m.submit(p, 0), Admission::accepted);
  MemoryOptions bad;
  bad.timing.banks = 3;
  EXPECT_THROW(Memory{bad}, std::invalid_argument);
}

}  // namespace
}  // namespace drfq
