// SPDX-License-Identifier: GPL-2.0-only
// A saved and restored object goes on as the one that it was saved from.
#include "core/state.hh"

#include <gtest/gtest.h>

#include <random>

#include "core/controller.hh"
#include "host/scenario_run.hh"
#include "model/agent.hh"

namespace drfq {
namespace {

/// Banks that are always ready, whose rows are closed.
struct Banks : PlainView<Banks> {
  bool ready(const Entry &) const { return true; }
  bool row_hit(const Entry &) const { return false; }
  Ps column_at(const Entry &, Dir) const { return 0; }
  Ps activate_at(const Entry &) const { return 0; }
  Ps row_to_column() const { return 15000; }
};

constexpr Ps kTurnaround[2] = {0, 0};

/// A controller under random packets, register writes and services.
class Load {
 public:
  Load(const ControllerOptions &o, unsigned seed) : controller(o), random_(seed) {}
  Load(const ControllerOptions &o, const Load &by)
      : controller(o), random_(by.random_), now_(by.now_) {
    load_state(&controller, save_state(by.controller));
  }

  /// Every decision of so many steps.
  std::vector<std::uint64_t> run(unsigned steps) {
    std::vector<std::uint64_t> decisions;
    for (unsigned i = 0; i < steps; i++) {
      now_ += 1000;
      if (below(50) == 0)
        controller.registers().write(mmio::kVtimePid + 8 * (1 + below(6)), below(9));
      if (below(50) == 0) controller.registers().write(mmio::kPidCore + 8 * below(4), 1 + below(6));
      if (below(5) != 0) arrive(&decisions);
      if (below(5) < 2) serve(&decisions);
    }
    return decisions;
  }

  void drain(std::vector<std::uint64_t> *decisions) {
    while (serve(decisions)) now_ += 1000;
  }

  Controller controller;

 private:
  std::uint64_t below(unsigned n) { return random_() % n; }

  void arrive(std::vector<std::uint64_t> *decisions) {
    Arrival a;
    a.label = below(2) == 0 ? Label::of_core(static_cast<std::uint32_t>(below(4)))
                            : Label::of_substream(static_cast<Pid>(1 + below(6)));
    a.dir = below(3) == 0 ? Dir::write : Dir::read;
    a.bytes = 64;
    a.bursts = 1 + static_cast<unsigned>(below(2));
    const Verdict v = controller.arrive(a);
    decisions->push_back(static_cast<std::uint64_t>(v.admission) << 32 | v.attribution.pid);
    if (v.admission != Admission::accepted) return;
    controller.enqueue(a.dir, v.attribution, now_, static_cast<std::uint16_t>(below(8)), 0, 0,
                       a.bursts);
  }

  bool serve(std::vector<std::uint64_t> *decisions) {
    const Choice &c = controller.choose(Banks(), now_, now_, kTurnaround, true);
    if (!c.found) return false;
    const Entry e = controller.serve(c);
    decisions->push_back(e.seq << 1 | index(c.dir));
    return true;
  }

  std::mt19937 random_;
  Ps now_ = 0;
};

std::vector<ControllerOptions> all_options() {
  std::vector<ControllerOptions> all(4);
  for (ControllerOptions &o : all) o.read_entries = o.write_entries = 32;
  all[1].admission = AdmissionRule::share;
  all[2].prepare = all[2].batch = true;
  all[2].aging = 20 * kPsPerNs;
  all[3].policy = Policy::frfcfs;
  return all;
}

TEST(ControllerState, ARestoredControllerDecidesAsTheOneThatWentOn) {
  for (const ControllerOptions &o : all_options())
    for (unsigned seed = 1; seed <= 20; seed++) {
      Load one(o, seed);
      one.run(1500);
      std::vector<std::uint64_t> drained;
      one.drain(&drained);
      Load two(o, one);
      EXPECT_EQ(save_state(two.controller), save_state(one.controller));
      EXPECT_EQ(one.run(3000), two.run(3000)) << "seed " << seed;
    }
}

TEST(ControllerState, AControllerWithEntriesIsNotSaved) {
  Controller c{ControllerOptions()};
  c.enqueue(Dir::read, {}, 0, 0, 0, 0);
  EXPECT_THROW(save_state(c), std::logic_error);
}

TEST(ControllerState, AControllerWithOtherOptionsRefusesTheState) {
  ControllerOptions o;
  const StateWords words = save_state(Controller(o));
  o.cores = 8;
  Controller other(o);
  EXPECT_THROW(load_state(&other, words), std::runtime_error);
}

TEST(ControllerState, AStateThatWasCutOrLengthenedIsRefused) {
  StateWords words = save_state(Controller(ControllerOptions()));
  Controller c{ControllerOptions()};
  words.push_back(0);
  EXPECT_THROW(load_state(&c, words), std::runtime_error);
  words.resize(words.size() / 2);
  EXPECT_THROW(load_state(&c, words), std::runtime_error);
}

AgentOptions traffic(Kind kind) {
  AgentOptions o;
  o.kind = kind;
  o.array_bytes = 1 << 16;
  o.write_percent = 30;
  o.block_bytes = 640;
  o.pause = kPsPerUs;
  o.bytes_per_s = 3000000000;
  o.seed = 7;
  return o;
}

TEST(GeneratorState, ARestoredGeneratorGivesTheNextAddresses) {
  for (Kind kind : {Kind::copy, Kind::stream, Kind::chase, Kind::dma, Kind::phase}) {
    Generator one(traffic(kind));
    for (unsigned i = 0; i < 1001; i++) one.next();
    AgentOptions other_seed = traffic(kind);
    other_seed.seed = 8;
    Generator two(other_seed);
    load_state(&two, save_state(one));
    for (unsigned i = 0; i < 1000; i++) {
      const Generator::Access a = one.next(), b = two.next();
      ASSERT_EQ(a.address, b.address) << "kind " << static_cast<int>(kind);
      ASSERT_EQ(a.dir, b.dir);
      ASSERT_EQ(a.pause_after, b.pause_after);
    }
  }
}

/// Sends so many packets, each done 50 ns later; returns the time after the last.
Ps send(Agent *a, unsigned packets, Ps now) {
  for (unsigned i = 0; i < packets; i++) {
    now = a->next_issue(now);
    const Packet p = a->issue(now);
    a->offered(true, now);
    a->completed(p.dir, now, now + 50 * kPsPerNs);
  }
  return now;
}

TEST(AgentState, ARestoredAgentSendsAndCountsAsTheOneThatWentOn) {
  Agent one(traffic(Kind::dma), 0);
  const Ps now = send(&one, 105, 0);
  Agent two(traffic(Kind::dma), 0);
  load_state(&two, save_state(one));
  EXPECT_EQ(send(&one, 500, now), send(&two, 500, now));
  EXPECT_EQ(one.counters().bytes_total(), two.counters().bytes_total());
  EXPECT_EQ(one.counters().latency.count(), two.counters().latency.count());
}

TEST(AgentState, AnAgentWithAPacketOnItsWayIsNotSaved) {
  Agent a(traffic(Kind::copy), 0);
  a.issue(0);
  a.offered(true, 0);
  EXPECT_THROW(save_state(a), std::logic_error);
}

/// A host whose agents move bytes at once, by a rule that its state decides.
class FakeHost final : public Host {
 public:
  RegisterFile &registers() override { return registers_; }
  const Stats &stats() const override { return stats_; }
  Policy policy() const override { return Policy::lvtf; }
  Ps now() const override { return now_; }
  Ps next_event() const override { return kNever; }
  void run_until(Ps to) override {
    for (std::size_t i = 0; i < counters_.size(); i++) {
      const std::uint64_t bytes = paused_[i] ? 0 : (to - now_) / 500 + random_.below(100000);
      counters_[i].bytes[0] += bytes;
      registers_.count(static_cast<Pid>(i + 2), bytes);
    }
    now_ = to;
  }
  void clear_stats() override {
    stats_.clear(now_);
    for (auto &c : counters_) c = {};
  }
  std::size_t agents_max() const override { return 8; }
  std::size_t add(const AgentOptions &) override {
    counters_.emplace_back();
    paused_.push_back(false);
    return counters_.size() - 1;
  }
  void replace(std::size_t, const AgentOptions &) override {}
  void pause(std::size_t i, bool on) override { paused_[i] = on; }
  const Traffic::Counters &counters(std::size_t i) const override { return counters_[i]; }

  /// Takes the state of another host, after the agents were added.
  void become(const FakeHost &other) { *this = other; }

 private:
  RegisterFile registers_{4};
  Stats stats_;
  Random random_{1};
  std::vector<Traffic::Counters> counters_;
  std::vector<std::uint8_t> paused_;
  Ps now_ = 0;
};

Scenario scenario(Charging charging) {
  Scenario s;
  s.warmup_ns = 5e6;
  s.duration_ns = 31e6;
  s.window_ns = 4e6;
  s.daemon_ns = 2e5;
  s.daemon_percent = 30;
  s.loop.charging = charging;
  for (unsigned i = 0; i < 3; i++) {
    AgentSpec a;
    a.traffic.name = "agent" + std::to_string(i);
    a.traffic.label = Label::of_core(i);
    a.pid = i + 2;
    a.weight = 1 + i;
    s.agents.push_back(a);
  }
  return s;
}

TEST(ScenarioState, ARunThatIsSplitAnywhereHasTheFiguresOfTheWhole) {
  for (Charging charging : {Charging::memory, Charging::dovetail}) {
    const Scenario s = scenario(charging);
    FakeHost whole_host;
    const Figures whole = run_on(s, whole_host);
    for (unsigned steps = 0; steps < 36; steps++) {
      FakeHost first_host, second_host;
      ScenarioRun first(s, first_host, nullptr);
      for (unsigned i = 0; i < steps; i++) ASSERT_TRUE(first.step());
      const StateWords saved = first.save();
      ScenarioRun second(s, second_host, nullptr, &saved);
      EXPECT_EQ(second.now_ns(), first.now_ns());
      second_host.become(first_host);
      while (second.step()) {
      }
      EXPECT_EQ(second.figures(), whole) << "split after " << steps << " steps";
    }
  }
}

}  // namespace
}  // namespace drfq
