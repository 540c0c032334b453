// SPDX-License-Identifier: GPL-2.0-only
// One run: agents, memory and the loop that charges them; and its figures.
#ifndef DRFQ_SCENARIO_HH
#define DRFQ_SCENARIO_HH

#include <map>
#include <string>
#include <vector>

#include "host.hh"
#include "loop.hh"

namespace drfq {

struct AgentSpec {
  AgentOptions traffic;
  Pid pid = 0;
  double weight = 1;
  VTime vtime = 0;  ///< of the registers when the loop is off
  bool is_device() const { return traffic.label.substream != 0; }
};

struct Scenario {
  MemoryOptions memory;
  LoopOptions loop;
  std::vector<AgentSpec> agents;
  double warmup_ns = 20e6;  ///< not measured
  double duration_ns = 100e6;
  double window_ns = 10e6;      ///< of share_stdev_percent
  double daemon_ns = 0;         ///< how long a short task preempts a core
  unsigned daemon_percent = 0;  ///< chance of that per update and core
  std::uint64_t seed = 1;
};

/// Name of a column to its figure.
using Figures = std::map<std::string, double>;

/// Runs it from an empty memory. Deterministic. observer may be null.
Figures run(const Scenario &s, Observer *observer = nullptr);

/// As run(), on a host that nothing has run on yet; its memory is the host's own.
/// The observer is told of register writes only.
Figures run_on(const Scenario &s, Host &host, Observer *observer = nullptr);

}  // namespace drfq

#endif
