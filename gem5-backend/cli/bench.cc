// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc bench: how fast the model itself is on this machine.
#include <cstdio>
#include <ctime>

#include "cli/commands.hh"
#include "host/scenario_run.hh"
#include "model/traffic.hh"

namespace drfq {
namespace {

/// The thesis' rules, all rules of this project, and the baseline.
enum class Rules : std::uint8_t { thesis, share, frfcfs };

struct Case {
  const char *what;
  const char *dram;
  Rules rules;
  Kind kind;
  unsigned agents;
  unsigned outstanding_lines;
  unsigned vtimes = 1;  ///< how many different virtual times the agents have, by turns
};

void print(const char *what, double bursts, double lines, double ms, double s) {
  std::printf("| %s | %.2f | %.2f | %.1f |\n", what, bursts / s / 1e6, lines / s / 1e6, ms / s);
}

void measure(const Case &c, double ms) {
  MemoryOptions o;
  timing_by_name(c.dram, &o.timing);
  if (c.rules == Rules::frfcfs) o.controller.policy = Policy::frfcfs;
  if (c.rules == Rules::share) {
    o.controller.admission = AdmissionRule::share;
    o.controller.prepare = o.controller.fill = true;
  }
  o.controller.cores = c.agents;
  Traffic t(o);
  for (unsigned i = 0; i < c.agents; i++) {
    t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
    t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, 1 + i % c.vtimes);
    AgentOptions a;
    a.kind = c.kind;
    a.label = Label::of_core(i);
    a.outstanding_lines = c.outstanding_lines;
    a.array_bytes = 1u << 20;
    a.base = footprint(a) * i;
    a.seed = i + 1;
    t.add(a);
  }
  t.run_until(kPsPerMs);
  t.clear_stats();
  // CPU time, so that other programs on the machine count less.
  const std::clock_t start = std::clock();
  t.run_until(kPsPerMs + static_cast<Ps>(ms * 1e9));
  const double s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const Stats &st = t.memory().stats();
  print(c.what, static_cast<double>(st.bursts[0] + st.bursts[1]),
        static_cast<double>(st.packets[0] + st.packets[1]), ms, s);
}

/// Two copies of weights 1 and 2 whose registers follow their charges, as in weighted.toml.
void measure_loop(const char *what, unsigned outstanding_lines, double ms) {
  Scenario s;
  s.warmup_ns = 1e6;
  s.duration_ns = s.window_ns = ms * 1e6;
  for (unsigned i = 0; i < 2; i++) {
    AgentSpec a;
    a.traffic.name = i == 0 ? "a" : "b";
    a.traffic.label = Label::of_core(i);
    a.traffic.outstanding_lines = outstanding_lines;
    a.traffic.base = footprint(a.traffic) * i;
    a.pid = i + 1;
    a.weight = i + 1;
    s.agents.push_back(a);
  }
  ModelHost host(s.memory);
  const std::clock_t start = std::clock();
  run_on(s, host, nullptr);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  // The warm-up takes its part of the time, and counts nothing.
  const double measured = seconds * ms / (ms + s.warmup_ns / 1e6);
  const Stats &st = host.stats();
  print(what, static_cast<double>(st.bursts[0] + st.bursts[1]),
        static_cast<double>(st.packets[0] + st.packets[1]), ms, measured);
}

}  // namespace

int command_bench(const BenchOptions &o) {
  if (!o.socket.empty()) return bench_socket(o.socket);
  std::puts("| case | M bursts/CPU s | M lines/CPU s | simulated ms/CPU s |\n|---|---:|---:|---:|");
  const char *const lpddr2 = "lpddr2-1066-x32";
  const Case cases[] = {
      {"LPDDR2 lvtf, 1 copy x 8 lines", lpddr2, Rules::thesis, Kind::copy, 1, 8},
      {"LPDDR2 lvtf, 2 copies x 8", lpddr2, Rules::thesis, Kind::copy, 2, 8},
      {"LPDDR2 lvtf, 2 copies x 32", lpddr2, Rules::thesis, Kind::copy, 2, 32},
      {"LPDDR2 lvtf share prepare fill, 2 copies x 32", lpddr2, Rules::share, Kind::copy, 2, 32},
      {"LPDDR2 frfcfs, 2 copies x 8", lpddr2, Rules::frfcfs, Kind::copy, 2, 8},
      {"LPDDR2 frfcfs, 2 copies x 32", lpddr2, Rules::frfcfs, Kind::copy, 2, 32},
      {"LPDDR2 lvtf, 4 random readers x 8", lpddr2, Rules::thesis, Kind::chase, 4, 8},
      {"LPDDR2 frfcfs, 4 random readers x 8", lpddr2, Rules::frfcfs, Kind::chase, 4, 8},
      {"LPDDR2 lvtf share prepare fill, 4 random readers x 8", lpddr2, Rules::share, Kind::chase, 4,
       8},
      {"DDR4 lvtf, 4 copies x 8", "ddr4-2400", Rules::thesis, Kind::copy, 4, 8},
      {"DDR5 lvtf, 4 copies x 8", "ddr5-4800", Rules::thesis, Kind::copy, 4, 8},
      {"LPDDR2 lvtf, 254 copies x 8", lpddr2, Rules::thesis, Kind::copy, 254, 8},
      {"LPDDR2 lvtf, 254 copies x 8 of 4 virtual times", lpddr2, Rules::thesis, Kind::copy, 254, 8,
       4},
      {"LPDDR2 frfcfs, 254 copies x 8", lpddr2, Rules::frfcfs, Kind::copy, 254, 8},
      {"LPDDR2 lvtf share prepare fill, 254 copies x 8", lpddr2, Rules::share, Kind::copy, 254, 8},
      {"LPDDR2 lvtf share prepare fill, 254 copies x 8 of 4 virtual times", lpddr2, Rules::share,
       Kind::copy, 254, 8, 4},
      {"LPDDR2 lvtf share prepare fill, 254 copies x 8 of 254 virtual times", lpddr2, Rules::share,
       Kind::copy, 254, 8, 254},
  };
  for (const Case &c : cases) measure(c, o.ms);
  measure_loop("LPDDR2 lvtf charged, 2 copies x 1 of weights 1:2", 1, o.ms);
  measure_loop("LPDDR2 lvtf charged, 2 copies x 8 of weights 1:2", 8, o.ms);
  measure_loop("LPDDR2 lvtf charged, 2 copies x 32 of weights 1:2", 32, o.ms);
  return 0;
}

}  // namespace drfq
