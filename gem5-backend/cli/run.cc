// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc run: an experiment file to a table and a plot.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "commands.hh"
#include "report.hh"
#include "simulator.hh"

namespace drfq {
namespace {

constexpr const char *kHelp =
    "usage: drfq-mc run [OPTION]... EXPERIMENT\n"
    "  --svg FILE  also write a bar chart of the experiment's plot column\n"
    "  --check     exit 3 when an expectation of the file is missed\n"
    "  --simulator COMMAND\n"
    "              run each combination by this command instead of on the model\n"
    "              (cli/simulator.hh; for gem5: just gem5 EXPERIMENT)\n";

}  // namespace

int command_run(const Arguments &args) {
  std::string file, plot, simulator;
  bool check = false;
  for (std::size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--help" || args[i] == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (args[i] == "--check") {
      check = true;
    } else if (args[i] == "--svg" && i + 1 < args.size()) {
      plot = args[++i];
    } else if (args[i] == "--simulator" && i + 1 < args.size()) {
      simulator = args[++i];
    } else if (args[i][0] == '-' || !file.empty()) {
      throw UsageError("run: unexpected '" + args[i] + "'\n" + kHelp);
    } else {
      file = args[i];
    }
  }
  if (file.empty()) throw UsageError(std::string("run: an experiment file is needed\n") + kHelp);
  const Experiment e = load_experiment(file, read_file(file));
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const Runner runner = [&](std::size_t point, const Scenario &s) {
    return simulator.empty() ? run(s) : simulate(simulator, file, point, s);
  };
  const Results r = run_all(e, runner, [&](std::size_t done, std::size_t all) {
    if (terminal) std::fprintf(stderr, "\r%zu of %zu runs%s", done, all, done == all ? "\n" : "");
  });
  std::cout << table(e, r);
  if (!plot.empty()) {
    std::ofstream out(plot);
    out << svg(e, r);
    out.close();
    if (!out) throw std::runtime_error("cannot write " + plot);
  }
  return check && !held(e, r) ? 3 : 0;
}

}  // namespace drfq
