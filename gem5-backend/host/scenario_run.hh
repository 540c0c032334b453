// SPDX-License-Identifier: GPL-2.0-only
// Runs a scenario: agents and memory, and the loop that charges the agents.
#ifndef DRFQ_SCENARIO_RUN_HH
#define DRFQ_SCENARIO_RUN_HH

#include <map>
#include <string>

#include "config/scenario.hh"
#include "host/host.hh"

namespace drfq {

/// From a figure's name to its value; docs/reference/controller-experiments.md lists them.
using Figures = std::map<std::string, double>;

/// Runs a scenario from an empty memory. Deterministic. observer may be null.
Figures run(const Scenario &s, Observer *observer = nullptr);

/// As run(), on a host that has run nothing yet, with that host's memory. The observer
/// hears of register writes only.
Figures run_on(const Scenario &s, Host &host, Observer *observer = nullptr);

}  // namespace drfq

#endif
