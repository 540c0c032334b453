// SPDX-License-Identifier: GPL-2.0-only
// An experiment file: one scenario, the settings that vary, and the report.
// docs/reference/controller-experiments.md describes every key.
#ifndef DRFQ_EXPERIMENT_HH
#define DRFQ_EXPERIMENT_HH

#include <string>
#include <utility>
#include <vector>

#include "config/scenario.hh"
#include "config/toml.hh"

namespace drfq {

/// "figure@statistic" over the seeds; @median is the default.
struct Column {
  std::string figure;
  std::string statistic;  ///< median, mean, min, max, or worst: the largest magnitude
  bool relative = false;  ///< divided by the reference point's: "figure/reference"
  std::string show() const;
};

struct Expectation {
  Column column;
  bool has_least = false, has_most = false;
  double least = 0, most = 0;
  std::string when_key, when_value;  ///< only rows with this setting; empty: all
};

/// One row: the settings that are varied, and the scenario they give.
struct Point {
  std::vector<std::pair<std::string, std::string>> settings;
  Scenario scenario;
};

struct Experiment {
  std::string title;
  std::string note;
  std::vector<std::uint64_t> seeds;
  std::vector<Point> points;
  std::vector<Column> columns;
  /// Settings of the reference points; the others are the point's own.
  std::vector<std::pair<std::string, std::string>> reference;
  Column plot;
  std::vector<Expectation> expectations;
};

/// Columns of the table, the plot and the expectations.
std::vector<Column> all_columns(const Experiment &e);

/// The settings of a point's reference: the point's own but for the reference keys.
std::vector<std::pair<std::string, std::string>> reference_settings(const Experiment &e,
                                                                    std::size_t point);

/// Reads text; file is for messages. Throws toml::Error.
Experiment load_experiment(const std::string &file, const std::string &text);

}  // namespace drfq

#endif
