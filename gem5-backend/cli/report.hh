// SPDX-License-Identifier: GPL-2.0-only
// The results of an experiment for people: a table and a plot.
#ifndef DRFQ_REPORT_HH
#define DRFQ_REPORT_HH

#include <string>

#include "host/results.hh"

namespace drfq {

/// A Markdown table with title and note, then one line for each expectation.
std::string table(const Experiment &e, const Results &r);

/// A bar chart: one bar for each point.
std::string svg(const Experiment &e, const Results &r);

}  // namespace drfq

#endif
