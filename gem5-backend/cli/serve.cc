// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc serve: the command line of the server.
#include <cstdlib>
#include <iostream>

#include "commands.hh"
#include "experiment.hh"
#include "server.hh"

namespace drfq {
namespace {

constexpr const char *kHelp =
    "usage: drfq-mc serve --socket PATH [OPTION]...\n"
    "  --socket PATH   where to listen; the file is private to this user\n"
    "  --memory FILE   take the [memory] table of this experiment file\n"
    "  --free-running  simulated time follows the clock, instead of waiting for the\n"
    "                  writer to advance it (lock-step)\n"
    "  --rate R        free-running: simulated seconds per second, at most (1)\n"
    "Stops on SIGINT and SIGTERM. The protocol is described in PROTOCOL.md.\n";

}  // namespace

int command_serve(const Arguments &args) {
  ServerOptions o;
  MemoryOptions memory;
  for (std::size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--help" || args[i] == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (args[i] == "--free-running") {
      o.mode = Service::Mode::free_running;
      continue;
    }
    const bool known = args[i] == "--socket" || args[i] == "--memory" || args[i] == "--rate";
    if (!known || i + 1 == args.size())
      throw UsageError("serve: unexpected '" + args[i] + "'\n" + kHelp);
    const std::string option = args[i], value = args[++i];
    if (option == "--socket") o.path = value;
    if (option == "--memory") memory = load_memory(toml::parse(value, read_file(value)));
    if (option == "--rate") {
      char *end = nullptr;
      o.rate = std::strtod(value.c_str(), &end);
      if (*end != '\0' || !(o.rate > 0 && o.rate <= 1000))
        throw UsageError("serve: --rate must be a number above 0, at most 1000");
    }
  }
  if (o.path.empty()) throw UsageError(std::string("serve: --socket is needed\n") + kHelp);
  ModelHost host(memory);
  Server(o, host).serve();
  return 0;
}

}  // namespace drfq
