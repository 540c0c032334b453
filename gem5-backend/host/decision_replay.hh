// SPDX-License-Identifier: GPL-2.0-only
// Lets the core take the decisions of a log again (DECISIONS.md).
#ifndef DRFQ_DECISION_REPLAY_HH
#define DRFQ_DECISION_REPLAY_HH

#include <cstdint>
#include <istream>
#include <string>

namespace drfq {

struct DecisionReplay {
  std::string source;
  std::uint64_t arrivals = 0, arrivals_same = 0;    ///< admission and attribution
  std::uint64_t decisions = 0, decisions_same = 0;  ///< direction and burst
  std::uint64_t directions_same = 0;
  std::string first_difference;  ///< file, line and what the core says; empty: none
};

/// After a difference the replay continues from the logged decision. Throws
/// std::runtime_error with file, line and reason when a line is not valid.
DecisionReplay replay_decisions(const std::string &file, std::istream &in);

}  // namespace drfq

#endif
