// SPDX-License-Identifier: GPL-2.0-only
// The simulation's own account of what happened, one line of JSON for each interval. Tests compare
// what software inside the machine measures with it. docs/reference/machine-description.md lists
// the fields.
#ifndef DRFQ_HARDWARE_GROUND_TRUTH_HH
#define DRFQ_HARDWARE_GROUND_TRUTH_HH

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "memory_hierarchy.hh"

namespace drfq::hardware {

class GroundTruth {
 public:
  explicit GroundTruth(const MachineDescription &);

  /// The machine goes live at this time. The first line begins here.
  void start(Ps at) { since_ = at; }
  /// Writes everything since the last call. now: the clock that all cores have reached. cores:
  /// their counts, instructions included.
  void write(std::ostream &, Ps now, const std::vector<CountsByRing> &cores, MemoryHierarchy *);

 private:
  // Each of these covers what happened since the last line.
  nlohmann::ordered_json core_json(unsigned core, const CountsByRing &now, const TrafficBytes &);
  nlohmann::ordered_json rmids_json(const MemoryHierarchy &);
  nlohmann::ordered_json pids_json(const MemoryHierarchy &);
  nlohmann::ordered_json device_json(const DeviceTraffic &);
  static nlohmann::ordered_json spaces_json(const ReadsBySpace &);

  double cycles_per_ps_;
  Ps since_ = 0;
  std::vector<CountsByRing> cores_;
  std::vector<TrafficBytes> by_core_, by_rmid_, by_pid_;
  DeviceTraffic device_;
  bool has_device_;
};

}  // namespace drfq::hardware

#endif
