// SPDX-License-Identifier: GPL-2.0-only
// The subcommands of drfq-mc and their options; main.cc fills these in. A command
// returns the exit status: 0 done, 1 failed, 2 used wrongly, 3 an expectation was
// missed or a decision differs.
#ifndef DRFQ_COMMANDS_HH
#define DRFQ_COMMANDS_HH

#include <string>
#include <vector>

#include "host/server.hh"

namespace drfq {

struct RunOptions {
  std::string experiment;
  std::string svg;        ///< file for the plot; empty: none
  std::string simulator;  ///< command; empty: the model
  bool check = false;
};
int command_run(const RunOptions &o);

struct ServeOptions {
  ServerOptions server;
  std::string memory;  ///< experiment file; empty: the defaults
};
int command_serve(const ServeOptions &o);

struct RecordOptions {
  std::string experiment;
  std::string out;
};
int command_record(const RecordOptions &o);

struct ReplayOptions {
  std::vector<std::string> files;  ///< traces, or decision logs
  std::string memory;              ///< experiment file; empty: the defaults
  std::string log;                 ///< file for the decisions; empty: none
  bool decisions = false;
};
int command_replay(const ReplayOptions &o);

struct BenchOptions {
  double ms = 100;     ///< simulated, of each case
  std::string socket;  ///< of a server to measure; empty: the model
};
int command_bench(const BenchOptions &o);

/// The part of bench that talks to a server.
int bench_socket(const std::string &path);

struct MemoryCommandOptions {
  std::string file;  ///< experiment file; empty: the defaults
};
int command_memory(const MemoryCommandOptions &o);

}  // namespace drfq

#endif
