// SPDX-License-Identifier: GPL-2.0-only
#include "ground_truth.hh"

#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

namespace drfq::hardware {
namespace {

using Json = nlohmann::ordered_json;

/// Traffic since the last call, which *last holds; updates it.
TrafficBytes since(TrafficBytes *last, const TrafficBytes &now) {
  const TrafficBytes d{now.read - last->read, now.write - last->write};
  *last = now;
  return d;
}

void add_traffic(const TrafficBytes &m, Json *out) {
  (*out)["read_bytes"] = m.read;
  (*out)["write_bytes"] = m.write;
}

double ns(Ps ps) { return static_cast<double>(ps) / 1e3; }

Json memory_json(const Memory &m) {
  const Stats &s = m.stats();
  Json out;
  for (Dir d : {Dir::read, Dir::write}) {
    const unsigned i = index(d);
    const Histogram &w = s.wait[i];
    out[name(d)] = {{"packets", s.packets[i]},
                    {"bursts", s.bursts[i]},
                    {"row_hits", s.row_hits[i]},
                    {"wait_ns_p50", ns(w.percentile(50))},
                    {"wait_ns_p99", ns(w.percentile(99))},
                    {"wait_ns_max", ns(w.max())},
                    {"queued", m.controller().queue(d).size()}};
  }
  out["turnarounds"] = s.turnarounds;
  return out;
}

}  // namespace

GroundTruth::GroundTruth(const MachineDescription &d)
    : cycles_per_ps_(static_cast<double>(d.clock_hz) / 1e12),
      cores_(d.cores),
      by_core_(d.cores),
      by_rmid_(d.rdt.rmids),
      by_pid_(kPids),
      has_device_(d.storage.queues != 0) {}

nlohmann::ordered_json GroundTruth::core_json(unsigned core, const CountsByRing &now,
                                              const TrafficBytes &moved) {
  const CoreCounts kernel = now.ring[0] - cores_[core].ring[0];
  const CoreCounts user = now.ring[1] - cores_[core].ring[1];
  CoreCounts all = kernel;
  all += user;
  cores_[core] = now;
  const auto cycles = [this](std::uint64_t ps) {
    return static_cast<std::uint64_t>(static_cast<double>(ps) * cycles_per_ps_);
  };
  const auto by_ring = [](std::uint64_t in_kernel, std::uint64_t in_user) {
    return Json{{"kernel", in_kernel}, {"user", in_user}};
  };
  Json out = {
      {"core", core},
      {"instructions", by_ring(kernel[Quantity::insns], user[Quantity::insns])},
      {"cycles", by_ring(cycles(kernel[Quantity::busy_ps]), cycles(user[Quantity::busy_ps]))},
      {"stall_cycles", cycles(all[Quantity::stall_ps])},
      {"llc_references", by_ring(kernel.references(), user.references())},
      {"llc_misses", by_ring(kernel.misses(), user.misses())},
      {"prefetches", all[Quantity::prefetch_miss]},
      {"write_backs", all[Quantity::write_back]}};
  add_traffic(since(&by_core_[core], moved), &out);
  return out;
}

nlohmann::ordered_json GroundTruth::rmids_json(const MemoryHierarchy &h) {
  Json out = Json::array();
  for (unsigned i = 0; i < by_rmid_.size(); i++) {
    const std::uint64_t held = h.cache().lines_held(static_cast<std::uint16_t>(i)) * kLineBytes;
    const TrafficBytes m = since(&by_rmid_[i], h.traffic_by_rmid(i));
    if (m.read == 0 && m.write == 0 && held == 0) continue;
    Json row = {{"rmid", i}};
    add_traffic(m, &row);
    row["occupancy_bytes"] = held;
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::ordered_json GroundTruth::pids_json(const MemoryHierarchy &h) {
  Json out = Json::array();
  for (Pid p = 0; p < kPids; p++) {
    const TrafficBytes m = since(&by_pid_[p], h.traffic_by_pid(p));
    if (m.read == 0 && m.write == 0) continue;
    Json row = {{"pid", p}};
    add_traffic(m, &row);
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::ordered_json GroundTruth::spaces_json(const ReadsBySpace &reads) {
  Json out = Json::array();
  for (const auto &[key, bytes] : reads)
    out.push_back({{"space", key.first}, {"pid", key.second}, {"read_bytes", bytes}});
  return out;
}

nlohmann::ordered_json GroundTruth::device_json(const DeviceTraffic &now) {
  const DeviceTraffic last = std::exchange(device_, now);
  return {{"transfers", now.transfers - last.transfers},
          {"to_memory_bytes", now.to_memory_bytes - last.to_memory_bytes},
          {"from_memory_bytes", now.from_memory_bytes - last.from_memory_bytes},
          {"cached_bytes", now.cached_bytes - last.cached_bytes}};
}

void GroundTruth::write(std::ostream &out, Ps now, const std::vector<CountsByRing> &cores,
                        MemoryHierarchy *h) {
  Json line = {{"at_ns", now / kPsPerNs}, {"interval_ns", (now - since_) / kPsPerNs}};
  since_ = now;
  Json &list = line["cores"] = Json::array();
  for (unsigned i = 0; i < cores.size(); i++) list.push_back(core_json(i, cores[i], h->traffic(i)));
  line["rmids"] = rmids_json(*h);
  line["pids"] = pids_json(*h);
  line["spaces"] = spaces_json(h->take_reads_by_space());
  if (has_device_) line["device"] = device_json(h->device().traffic());
  line["memory"] = memory_json(h->memory_port().memory());
  out << line << "\n";
  h->memory_port().clear_stats();
}

}  // namespace drfq::hardware
