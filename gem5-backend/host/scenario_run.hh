// SPDX-License-Identifier: GPL-2.0-only
// Runs a scenario: agents and memory, and the loop that charges the agents.
#ifndef DRFQ_SCENARIO_RUN_HH
#define DRFQ_SCENARIO_RUN_HH

#include <map>
#include <memory>
#include <string>

#include "config/scenario.hh"
#include "core/state.hh"
#include "host/host.hh"

namespace drfq {

/// From a figure's name to its value; docs/reference/controller-experiments.md lists them.
using Figures = std::map<std::string, double>;

/// Runs a scenario from an empty memory. Deterministic. observer may be null.
Figures run(const Scenario &s, Observer *observer = nullptr);

/// As run(), on a host that has run nothing yet, with that host's memory. The observer
/// hears of register writes only.
Figures run_on(const Scenario &s, Host &host, Observer *observer = nullptr);

/// The same, step by step, so that the host can save it between two updates of the registers.
class ScenarioRun {
 public:
  /// Gives the host its agents. All three outlive the run. saved: the run's state, while the host
  /// restores the registers and the agents itself; null: the run starts.
  ScenarioRun(const Scenario &s, Host &host, Observer *observer, const StateWords *saved = nullptr);
  ~ScenarioRun();

  /// Simulates up to and including the next update of the registers. False when the run ends
  /// before it.
  bool step();
  /// How far it is.
  double now_ns() const;
  /// Of a run that is over.
  Figures figures() const;
  StateWords save() const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace drfq

#endif
