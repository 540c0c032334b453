// SPDX-License-Identifier: GPL-2.0-only
#include <cstdio>
#include <exception>
#include <iostream>

#include "commands.hh"

namespace {

constexpr const char *kHelp =
    "usage: drfq-mc COMMAND [OPTION]...\n"
    "The memory controller of dominant resource fair queueing, and a model of its DRAM.\n\n"
    "  run EXPERIMENT   run an experiment file: a table, and a plot with --svg\n"
    "  serve            offer the controller on a Unix socket\n"
    "  record           write the packets of an experiment as a trace\n"
    "  replay TRACE     run a trace through the controller\n"
    "  bench            measure the model's own speed\n"
    "  memory           print a description of the memory as JSON\n\n"
    "drfq-mc COMMAND --help tells more.\n";

int dispatch(const std::string &command, const drfq::Arguments &args) {
  struct Entry {
    const char *name;
    int (*run)(const drfq::Arguments &);
  };
  static constexpr Entry entries[] = {
      {"run", drfq::command_run},       {"serve", drfq::command_serve},
      {"record", drfq::command_record}, {"replay", drfq::command_replay},
      {"bench", drfq::command_bench},   {"memory", drfq::command_memory},
  };
  for (const Entry &e : entries)
    if (command == e.name) return e.run(args);
  throw drfq::UsageError("unknown command '" + command + "'\n" + kHelp);
}

}  // namespace

int main(int argc, char **argv) {
  const drfq::Arguments args(argv + 1, argv + argc);
  if (args.empty()) {
    std::cerr << kHelp;
    return 2;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::cout << kHelp;
    return 0;
  }
  try {
    return dispatch(args[0], drfq::Arguments(args.begin() + 1, args.end()));
  } catch (const drfq::UsageError &e) {
    std::cerr << "drfq-mc: " << e.what() << "\n";
    return 2;
  } catch (const std::exception &e) {
    std::cerr << "drfq-mc: " << e.what() << "\n";
    return 1;
  }
}
