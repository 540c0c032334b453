// SPDX-License-Identifier: GPL-2.0-only
// Logs of decisions are replayed. The same core takes the same decisions, and a
// changed log is noticed.
#include "host/decision_replay.hh"

#include <gtest/gtest.h>

#include <sstream>

#include "host/decision_log.hh"
#include "model/random.hh"

namespace drfq {
namespace {

constexpr unsigned kBanks = 8;

/// Banks that open a row at once; enough for a pick to have something to see.
struct Banks : BankStateView {
  Banks() {
    s.rows.assign(kBanks, -1);
    for (auto &c : s.column_at) c.assign(kBanks, 0);
    s.activate_at.assign(kBanks, 0);
    rcd = 15000;
  }
};

/// A random run of a controller, logged.
std::string run(const ControllerOptions &o, std::uint64_t seed, unsigned events) {
  std::ostringstream out;
  DecisionWriter log(out, "test", o, kBanks, 15000, ~0ull);
  Controller c(o);
  Banks banks;
  Random random(seed);
  Ps now = 0;
  for (unsigned core = 0; core < o.cores; core++) {
    c.registers().write(mmio::kPidCore + 8 * core, core + 1);
    log.wrote(now, mmio::kPidCore + 8 * core, core + 1);
  }
  for (unsigned i = 0; i < events; i++) {
    now += random.below(8000);
    if (random.below(20) == 0) {
      const std::uint64_t offset = mmio::kVtimeCore + 8 * random.below(o.cores),
                          v = random.below(4);
      c.registers().write(offset, v);
      log.wrote(now, offset, v);
    }
    if (random.below(2) == 0) {
      Arrival a;
      a.label = Label::of_core(static_cast<std::uint32_t>(random.below(o.cores)));
      a.dir = random.below(3) == 0 ? Dir::write : Dir::read;
      a.bytes = 32;
      const Verdict v = c.arrive(a);
      log.arrived(now, a, v);
      if (v.admission != Admission::accepted) continue;
      const auto bank = static_cast<std::uint16_t>(random.below(kBanks));
      const auto row = static_cast<std::uint32_t>(random.below(3));
      c.enqueue(a.dir, v.attribution, now, bank, row, 0);
      log.queued(bank, row);
      continue;
    }
    banks.s.busy.clear();
    if (random.below(10) == 0) banks.s.busy.insert(static_cast<unsigned>(random.below(kBanks)));
    banks.s.bus_free = now + random.below(10000);
    for (unsigned b = 0; b < kBanks; b++) banks.s.activate_at[b] = now + random.below(20000);
    const Choice choice = c.choose(banks, now, banks.s.bus_free, banks.s.turnaround);
    if (!choice.found) continue;
    const Entry e = c.queue(choice.dir).at(choice.place);
    log.decided(now, banks.s, choice, e);
    c.serve(choice);
    banks.s.rows[e.bank] = e.row;
  }
  return out.str();
}

DecisionReplay replay(const std::string &log) {
  std::istringstream in(log);
  return replay_decisions("log", in);
}

TEST(Decisions, SameCoreSaysTheSame) {
  for (std::uint64_t seed = 1; seed <= 24; seed++) {
    ControllerOptions o;
    o.read_entries = o.write_entries = seed % 2 ? 8 : 128;
    o.runs = {seed % 3 ? 4u : 64u, seed % 8 < 3 ? 16u : 0u};
    o.policy = seed % 4 == 0 ? Policy::frfcfs : Policy::lvtf;
    o.prepare = seed % 5 == 0;
    o.batch = seed % 9 < 4;
    o.aging = seed % 6 == 0 ? 100000 : 0;
    o.admission = seed % 7 < 3 ? AdmissionRule::share : AdmissionRule::thesis;
    const DecisionReplay r = replay(run(o, seed, 2000));
    EXPECT_GT(r.decisions, 200u);
    EXPECT_EQ(r.decisions_same, r.decisions) << r.first_difference;
    EXPECT_EQ(r.arrivals_same, r.arrivals) << r.first_difference;
    EXPECT_EQ(r.source, "test");
  }
}

TEST(Decisions, AReplayByAnotherRuleFindsADifference) {
  std::string log = run(ControllerOptions(), 7, 2000);
  // Another tie rule decides otherwise, now and then.
  const std::string from = "\"tie_bursts\":64", to = "\"tie_bursts\":1";
  log.replace(log.find(from), from.size(), to);
  const DecisionReplay r = replay(log);
  EXPECT_LT(r.decisions_same, r.decisions);
  EXPECT_NE(r.first_difference.find("log:"), std::string::npos);
}

TEST(Decisions, AControllerThatFillsGapsWritesNoLog) {
  ControllerOptions o;
  o.fill = true;
  EXPECT_THROW(run(o, 1, 0), std::invalid_argument);
}

TEST(Decisions, AMalformedLogIsRefused) {
  const std::string good = run(ControllerOptions(), 3, 50);
  for (const std::string &bad :
       {std::string(), std::string("x\n"), std::string("{}\n"),
        std::string("{\"drfq_decisions\":2}\n"), good + "{\"q\":[8,1]}\n", good + "{\"q\":[1]}\n",
        good + "{\"z\":1}\n", good + "{\"a\":[1,2\n",
        good + "{\"d\":[0,0,0,0,0,0,99999,0,0],\"rows\":[]}\n"})
    EXPECT_THROW(replay(bad), std::runtime_error) << bad.substr(0, 60);
  ControllerOptions o;
  o.admission = AdmissionRule::share;
  const std::string shares = run(o, 3, 0);
  for (const char *pid : {"-1", "5", "8192"})
    EXPECT_THROW(replay(shares + "{\"a\":[0,0,64,1,0,0,0,0," + pid + ",0]}\n{\"q\":[0,1]}\n"),
                 std::runtime_error)
        << "another owner than the core's: " << pid;
  EXPECT_THROW(replay(shares + "{\"q\":[0,1]}\n"), std::runtime_error) << "of no packet";
}

}  // namespace
}  // namespace drfq
