// SPDX-License-Identifier: GPL-2.0-only
// What an experiment simulates: agents, memory and the loop that charges them.
// Data only; host/scenario_run.hh runs it.
#ifndef DRFQ_SCENARIO_HH
#define DRFQ_SCENARIO_HH

#include <cstdint>
#include <vector>

#include "model/generator.hh"
#include "model/memory.hh"

namespace drfq {

/// What the registers carry; bpf/drfq.h has the rules.
enum class Charging : std::uint8_t {
  memory,      ///< an account of memory traffic alone (the scheduler's default)
  delta,       ///< S; as dovetail, with the smaller time at most delta behind
  dovetail,    ///< S; a time per resource: the maximum of sums
  memoryless,  ///< S; the larger of both times of every update: a sum of maxima (thesis)
};

struct LoopOptions {
  bool enabled = true;  ///< false: the registers keep what the agents declare
  Charging charging = Charging::memory;
  double update_ns = 1e6;   ///< between two updates of the registers
  unsigned shift = 22;      ///< 4.5.3: registers hold ns >> shift
  std::uint32_t cpus = 4;   ///< c
  double bytes_per_ns = 4;  ///< m
  double delta_ns = 40e6;
  double cap_ns = 40e6;   ///< Algorithm 2: a running process is at most so far beyond V
  double wake_ns = 40e6;  ///< C of 4.7
  double hold_ns = 0;     ///< K of 4.10 for devices; 0: no delayed wake-up
};

struct AgentSpec {
  AgentOptions traffic;
  Pid pid = 0;
  double weight = 1;
  VTime vtime = 0;     ///< of the registers, unless the loop writes them
  bool fixed = false;  ///< outside the loop: the registers keep vtime
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

}  // namespace drfq

#endif
