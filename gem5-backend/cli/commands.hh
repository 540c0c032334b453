// SPDX-License-Identifier: GPL-2.0-only
// The subcommands of drfq-mc. Each takes the arguments after its name and
// returns the exit status: 0 done, 1 failed, 2 used wrongly, 3 an expectation
// was missed.
#ifndef DRFQ_COMMANDS_HH
#define DRFQ_COMMANDS_HH

#include <stdexcept>
#include <string>
#include <vector>

namespace drfq {

using Arguments = std::vector<std::string>;

/// A wrong command line; what() says what to do.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

int command_run(const Arguments &args);
int command_serve(const Arguments &args);
int command_replay(const Arguments &args);
int command_record(const Arguments &args);
int command_bench(const Arguments &args);
int command_memory(const Arguments &args);

/// The part of bench that talks to a server.
int bench_socket(const std::string &path);

}  // namespace drfq

#endif
