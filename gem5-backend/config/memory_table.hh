// SPDX-License-Identifier: GPL-2.0-only
// The [memory] table of a description file: controller, DRAM and ports.
#ifndef DRFQ_MEMORY_TABLE_HH
#define DRFQ_MEMORY_TABLE_HH

#include <string>

#include "config/toml.hh"
#include "model/memory.hh"

namespace drfq {

/// Throws toml::Error where a table has an unknown name, or is one of several and should not be, or
/// the reverse.
void check_tables(const toml::Document &doc);

/// Reads [memory]; what is absent has its default. Throws toml::Error.
MemoryOptions load_memory(const toml::Document &doc);

/// The same of an experiment file, after check_tables(). Throws toml::Error, or std::runtime_error
/// when it cannot be read.
MemoryOptions load_memory_file(const std::string &path);

/// All of it as one line of JSON, every time in picoseconds: for a simulator's configuration.
std::string memory_json(const MemoryOptions &m);

}  // namespace drfq

#endif
