// SPDX-License-Identifier: GPL-2.0-only
// The payload of the operation stats (PROTOCOL.md).
#ifndef DRFQ_STATS_JSON_HH
#define DRFQ_STATS_JSON_HH

#include <string>

#include "model/stats.hh"

namespace drfq {

/// Totals since the start as a JSON object, with the 512 pids of most bytes.
std::string stats_json(const Stats &stats, Ps now);

}  // namespace drfq

#endif
