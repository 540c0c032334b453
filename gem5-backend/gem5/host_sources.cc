// SPDX-License-Identifier: GPL-2.0-only
// The libraries config/ and host/, compiled into gem5. gem5's build reads no sources
// outside this directory, so this file includes them.
#include "config/experiment.cc"
#include "config/memory_table.cc"
#include "config/toml.cc"
#include "host/decision_log.cc"
#include "host/scenario_run.cc"
#include "host/server.cc"
#include "host/service.cc"
#include "host/socket.cc"
#include "host/stats_json.cc"
