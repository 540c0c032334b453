// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc bench: how fast the model itself is on this machine.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "../model/traffic.hh"
#include "commands.hh"

namespace drfq {
namespace {

struct Case {
  const char *what;
  const char *dram;
  Policy policy;
  Kind kind;
  unsigned agents;
  unsigned lines;
};

void measure(const Case &c, double ms) {
  MemoryOptions o;
  timing_by_name(c.dram, &o.timing);
  o.controller.policy = c.policy;
  Traffic t(o);
  for (unsigned i = 0; i < c.agents; i++) {
    t.memory().controller().registers().write(mmio::kPidCore + 8 * i, i + 1);
    t.memory().controller().registers().write(mmio::kVtimeCore + 8 * i, i + 1);
    AgentOptions a;
    a.kind = c.kind;
    a.label = Label::of_core(i);
    a.lines = c.lines;
    a.base = std::uint64_t{i} << 30;
    t.add(a);
  }
  t.run_until(kPsPerMs);
  t.clear_stats();
  // CPU time, so that other programs on the machine count less.
  const std::clock_t start = std::clock();
  t.run_until(kPsPerMs + static_cast<Ps>(ms * 1e9));
  const double s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const Stats &st = t.memory().stats();
  std::printf("| %s | %.2f | %.2f | %.1f |\n", c.what,
              static_cast<double>(st.bursts[0] + st.bursts[1]) / s / 1e6,
              static_cast<double>(st.packets[0] + st.packets[1]) / s / 1e6, ms / s);
}

}  // namespace

int command_bench(const Arguments &args) {
  double ms = 100;
  if (args.size() == 1 && (args[0] == "--help" || args[0] == "-h")) {
    std::cout << "usage: drfq-mc bench [MS]\n"
                 "       drfq-mc bench --socket PATH\n"
                 "  MS             simulated milliseconds of each case (100)\n"
                 "  --socket PATH  measure the round trips of a running server instead\n";
    return 0;
  }
  if (args.size() == 2 && args[0] == "--socket") return bench_socket(args[1]);
  if (args.size() > 1) throw UsageError("usage: drfq-mc bench [MS | --socket PATH]");
  if (args.size() == 1) {
    char *end = nullptr;
    ms = std::strtod(args[0].c_str(), &end);
    if (*end != '\0' || !(ms >= 1 && ms <= 1e6))
      throw UsageError("bench: MS must be a number from 1 to 1000000");
  }
  std::puts("| case | M bursts/CPU s | M lines/CPU s | simulated ms/CPU s |\n|---|---:|---:|---:|");
  const Case cases[] = {
      {"LPDDR2 lvtf, 1 copy x 8 lines", "lpddr2-1066-x32", Policy::lvtf, Kind::copy, 1, 8},
      {"LPDDR2 lvtf, 2 copies x 8", "lpddr2-1066-x32", Policy::lvtf, Kind::copy, 2, 8},
      {"LPDDR2 lvtf, 2 copies x 32", "lpddr2-1066-x32", Policy::lvtf, Kind::copy, 2, 32},
      {"LPDDR2 frfcfs, 2 copies x 8", "lpddr2-1066-x32", Policy::frfcfs, Kind::copy, 2, 8},
      {"LPDDR2 frfcfs, 2 copies x 32", "lpddr2-1066-x32", Policy::frfcfs, Kind::copy, 2, 32},
      {"LPDDR2 lvtf, 4 random readers x 8", "lpddr2-1066-x32", Policy::lvtf, Kind::chase, 4, 8},
      {"DDR4 lvtf, 4 copies x 8", "ddr4-2400", Policy::lvtf, Kind::copy, 4, 8},
      {"DDR5 lvtf, 4 copies x 8", "ddr5-4800", Policy::lvtf, Kind::copy, 4, 8},
  };
  for (const Case &c : cases) measure(c, ms);
  return 0;
}

}  // namespace drfq
