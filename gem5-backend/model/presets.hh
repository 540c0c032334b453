// SPDX-License-Identifier: GPL-2.0-only
// Finds a DRAM by its name. interface/dram_presets.toml is the list.
#ifndef DRFQ_PRESETS_HH
#define DRFQ_PRESETS_HH

#include <string>

#include "generated/dram_presets.hh"

namespace drfq {

/// Finds a preset; false when there is none of that name.
inline bool timing_by_name(const std::string &name, Timing *out) {
  for (const Timing &t : dram_presets())
    if (t.name == name) {
      *out = t;
      return true;
    }
  return false;
}

/// The names, separated by ", ".
inline std::string dram_preset_names() {
  std::string all;
  for (const Timing &t : dram_presets()) all += (all.empty() ? "" : ", ") + t.name;
  return all;
}

}  // namespace drfq

#endif
