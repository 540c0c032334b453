// SPDX-License-Identifier: GPL-2.0-only
// Runs an experiment: every combination with every seed, and the verdict.
#ifndef DRFQ_RESULTS_HH
#define DRFQ_RESULTS_HH

#include <functional>
#include <string>
#include <vector>

#include "config/experiment.hh"
#include "host/scenario_run.hh"

namespace drfq {

/// load_experiment(), and a check that every figure of the file exists. The check
/// simulates 1 us, so that a long run does not end in an error. Throws toml::Error.
Experiment load_checked_experiment(const std::string &file, const std::string &text);

/// Runs one combination (its number, and its scenario with a seed).
using Runner = std::function<Figures(std::size_t, const Scenario &)>;

struct Results {
  /// By point, then by seed.
  std::vector<std::vector<Figures>> figures;
};

/// Runs every combination; progress(done, all) after each.
Results run_all(const Experiment &e, const Runner &runner,
                const std::function<void(std::size_t, std::size_t)> &progress);

/// Value of a column for a point.
double value(const Experiment &e, const Results &r, std::size_t point, const Column &c);

/// Rows that an expectation concerns, and those that miss it.
struct Judgement {
  unsigned rows = 0, missed = 0;
};
Judgement judge(const Experiment &e, const Results &r, const Expectation &x);

/// Whether every expectation held.
bool held(const Experiment &e, const Results &r);

}  // namespace drfq

#endif
