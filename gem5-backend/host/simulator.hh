// SPDX-License-Identifier: GPL-2.0-only
// Experiments on a simulator that embeds the core, one process for each run.
#ifndef DRFQ_SIMULATOR_HH
#define DRFQ_SIMULATOR_HH

#include <string>

#include "host/scenario_run.hh"

namespace drfq {

/// Runs one combination of an experiment with one seed by the shell command
///   COMMAND experiment FILE POINT SEED AGENTS MEMORY
/// MEMORY is memory_json(). The command prints a line "figure NAME VALUE" for each
/// figure. Throws std::runtime_error when it fails or prints none.
Figures simulate(const std::string &command, const std::string &file, std::size_t point,
                 const Scenario &s);

}  // namespace drfq

#endif
