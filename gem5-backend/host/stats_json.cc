// SPDX-License-Identifier: GPL-2.0-only
#include "host/stats_json.hh"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace drfq {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPidsShown = 512;

void add_direction(const Stats &s, Dir d, Json *out) {
  const unsigned i = index(d);
  const std::string n = name(d);
  (*out)[n + "_packets"] = s.packets[i];
  (*out)[n + "_bursts"] = s.bursts[i];
  (*out)[n + "_row_hits"] = s.row_hits[i];
  (*out)[n + "_wait_p50_ps"] = s.wait[i].percentile(50);
  (*out)[n + "_wait_p99_ps"] = s.wait[i].percentile(99);
  for (Admission a : {Admission::full, Admission::reserved, Admission::blocked})
    (*out)[n + "_refused_" + name(a)] = s.refused[i][static_cast<unsigned>(a)];
}

void add_pids(const Stats &s, Json *out) {
  const auto bytes = [&s](Pid p) { return s.bytes[0][p] + s.bytes[1][p]; };
  std::vector<Pid> pids;
  for (Pid p = 0; p < kPids; p++)
    if (bytes(p) != 0) pids.push_back(p);
  const std::size_t shown = std::min(pids.size(), kPidsShown);
  std::partial_sort(
      pids.begin(), pids.begin() + static_cast<std::ptrdiff_t>(shown), pids.end(),
      [&bytes](Pid a, Pid b) { return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : a < b; });
  (*out)["pids_left_out"] = pids.size() - shown;
  Json list = Json::array();
  for (std::size_t i = 0; i < shown; i++)
    list.push_back({{"pid", pids[i]},
                    {"read_bytes", s.bytes[0][pids[i]]},
                    {"write_bytes", s.bytes[1][pids[i]]}});
  (*out)["pids"] = std::move(list);
}

}  // namespace

std::string stats_json(const Stats &s, Ps now) {
  Json out = {{"time_ps", now}};
  for (Dir d : {Dir::read, Dir::write}) add_direction(s, d, &out);
  out["turnarounds"] = s.turnarounds;
  out["forwarded_bursts"] = s.forwarded;
  out["merged_bursts"] = s.merged;
  out["aged_bursts"] = s.aged;
  add_pids(s, &out);
  return out.dump();
}

}  // namespace drfq
