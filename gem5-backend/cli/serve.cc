// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc serve and drfq-mc memory.
#include <iostream>

#include "cli/commands.hh"
#include "config/memory_table.hh"

namespace drfq {
namespace {

MemoryOptions memory_of(const std::string &file) {
  return file.empty() ? MemoryOptions() : load_memory_file(file);
}

}  // namespace

int command_serve(const ServeOptions &o) {
  ModelHost host(memory_of(o.memory));
  Server(o.server, host).serve();
  return 0;
}

int command_memory(const MemoryCommandOptions &o) {
  std::cout << memory_json(memory_of(o.file)) << "\n";
  return 0;
}

}  // namespace drfq
