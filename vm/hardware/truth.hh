// SPDX-License-Identifier: GPL-2.0-only
// The machine's own account of what happened, one line of JSON for each
// interval: the yardstick for what software inside measures. Fields are
// described in docs/virtual-machine.md.
#ifndef DRFQ_MACHINE_TRUTH_HH
#define DRFQ_MACHINE_TRUTH_HH

#include <iosfwd>
#include <vector>

#include "hierarchy.hh"

namespace drfq::machine {

class Truth {
 public:
  explicit Truth(const Description &);

  /// Everything since the last call. now: the time up to which all cores have come;
  /// cores: their counts, instructions included.
  void write(std::ostream &, Ps now, const std::vector<Sources> &cores, Hierarchy *);

 private:
  void write_core(std::ostream &, unsigned core, const Sources &now, const Moved &);
  void write_ids(std::ostream &, const Hierarchy &);
  void write_pids(std::ostream &, const Hierarchy &);

  double cycles_per_ps_;
  Ps since_ = 0;
  std::vector<Sources> cores_;
  std::vector<Moved> by_core_, by_rmid_, by_pid_;
};

}  // namespace drfq::machine

#endif
