// SPDX-License-Identifier: GPL-2.0-only
// The experiments and the server of drfq-mc, compiled into gem5. They are included
// because gem5's build reads no sources outside this directory.
#include "cli/experiment.cc"
#include "config/memory_table.cc"
#include "cli/scenario.cc"
#include "cli/server.cc"
#include "cli/service.cc"
#include "cli/socket.cc"
#include "config/toml.cc"
