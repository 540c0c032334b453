// SPDX-License-Identifier: GPL-2.0-only
// What a run of an experiment found: a table, a verdict and a plot.
#ifndef DRFQ_REPORT_HH
#define DRFQ_REPORT_HH

#include <functional>
#include <string>
#include <vector>

#include "experiment.hh"

namespace drfq {

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

/// A Markdown table with title and note, then one line for each expectation.
std::string table(const Experiment &e, const Results &r);

/// Whether every expectation held.
bool held(const Experiment &e, const Results &r);

/// A bar for each point.
std::string svg(const Experiment &e, const Results &r);

}  // namespace drfq

#endif
