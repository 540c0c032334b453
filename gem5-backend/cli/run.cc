// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc run: an experiment file to a table and a plot.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "cli/commands.hh"
#include "cli/report.hh"
#include "host/simulator.hh"

namespace drfq {

int command_run(const RunOptions &o) {
  const Experiment e = load_checked_experiment(o.experiment, read_file(o.experiment));
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const Runner runner = [&](std::size_t point, const Scenario &s) {
    return o.simulator.empty() ? run(s) : simulate(o.simulator, o.experiment, point, s);
  };
  const Results r = run_all(e, runner, [&](std::size_t done, std::size_t all) {
    if (terminal) std::fprintf(stderr, "\r%zu of %zu runs%s", done, all, done == all ? "\n" : "");
  });
  std::cout << table(e, r);
  if (!o.svg.empty()) {
    std::ofstream out(o.svg);
    out << svg(e, r);
    out.close();
    if (!out) throw std::runtime_error("cannot write " + o.svg);
  }
  return o.check && !held(e, r) ? 3 : 0;
}

}  // namespace drfq
