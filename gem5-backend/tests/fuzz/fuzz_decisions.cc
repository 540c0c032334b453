// SPDX-License-Identifier: GPL-2.0-only
// Arbitrary text as a log of decisions.
#include <algorithm>
#include <sstream>

#include "host/decision_replay.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  std::istringstream text(
      std::string(reinterpret_cast<const char *>(data), std::min<std::size_t>(size, 65536)));
  try {
    drfq::replay_decisions("fuzz", text);
  } catch (const std::runtime_error &) {
  }
  return 0;
}
