// SPDX-License-Identifier: GPL-2.0-only
// The state of the core's objects (core/state.hh) as a line of gem5's checkpoint.
#ifndef DRFQ_GEM5_CHECKPOINT_HH
#define DRFQ_GEM5_CHECKPOINT_HH

#include <exception>
#include <string>

#include "base/logging.hh"
#include "core/state.hh"
#include "sim/serialize.hh"

namespace gem5 {

inline void drfqOut(CheckpointOut &cp, const std::string &name, const ::drfq::StateWords &words) {
  arrayParamOut(cp, name, words);
}

inline ::drfq::StateWords drfqIn(CheckpointIn &cp, const std::string &name) {
  ::drfq::StateWords words;
  arrayParamIn(cp, name, words);
  return words;
}

/** Ends gem5 with a message when the words are not such an object's. */
template <class T>
void drfqLoad(T *object, const ::drfq::StateWords &words, const std::string &owner) {
  std::string problem;
  try {
    ::drfq::load_state(object, words);
  } catch (const std::exception &e) {
    problem = e.what();
  }
  fatal_if(!problem.empty(), "%s: cannot restore: %s", owner, problem);
}

}  // namespace gem5

#endif
