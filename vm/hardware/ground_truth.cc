// SPDX-License-Identifier: GPL-2.0-only
#include "ground_truth.hh"

#include <ostream>

namespace drfq::hardware {
namespace {

/// Traffic since the last call, which *last holds; updates it.
TrafficBytes since(TrafficBytes *last, const TrafficBytes &now) {
  const TrafficBytes d{now.read - last->read, now.write - last->write};
  *last = now;
  return d;
}

std::ostream &operator<<(std::ostream &out, const TrafficBytes &m) {
  return out << "\"read_bytes\":" << m.read << ",\"write_bytes\":" << m.write;
}

double ns(Ps ps) { return static_cast<double>(ps) / 1e3; }

void write_memory(std::ostream &out, const Memory &m) {
  const Stats &s = m.stats();
  out << "\"memory\":{";
  for (Dir d : {Dir::read, Dir::write}) {
    const unsigned i = index(d);
    const Histogram &w = s.wait[i];
    out << "\"" << name(d) << "\":{\"packets\":" << s.packets[i] << ",\"bursts\":" << s.bursts[i]
        << ",\"row_hits\":" << s.row_hits[i] << ",\"wait_ns_p50\":" << ns(w.percentile(50))
        << ",\"wait_ns_p99\":" << ns(w.percentile(99)) << ",\"wait_ns_max\":" << ns(w.max())
        << ",\"queued\":" << m.controller().queue(d).size() << "},";
  }
  out << "\"turnarounds\":" << s.turnarounds << "}";
}

}  // namespace

GroundTruth::GroundTruth(const MachineDescription &d)
    : cycles_per_ps_(static_cast<double>(d.clock_hz) / 1e12),
      cores_(d.cores),
      by_core_(d.cores),
      by_rmid_(d.rdt.rmids),
      by_pid_(kPids) {}

void GroundTruth::write_core(std::ostream &out, unsigned core, const CountsByRing &now,
                             const TrafficBytes &moved) {
  const CoreCounts kernel = now.ring[0] - cores_[core].ring[0];
  const CoreCounts user = now.ring[1] - cores_[core].ring[1];
  CoreCounts all = kernel;
  all += user;
  cores_[core] = now;
  const auto cycles = [this](std::uint64_t ps) {
    return static_cast<std::uint64_t>(static_cast<double>(ps) * cycles_per_ps_);
  };
  out << (core ? "," : "") << "{\"core\":" << core
      << ",\"instructions\":{\"kernel\":" << kernel[Quantity::insns]
      << ",\"user\":" << user[Quantity::insns]
      << "},\"cycles\":{\"kernel\":" << cycles(kernel[Quantity::busy_ps])
      << ",\"user\":" << cycles(user[Quantity::busy_ps])
      << "},\"stall_cycles\":" << cycles(all[Quantity::stall_ps])
      << ",\"llc_references\":{\"kernel\":" << kernel.references()
      << ",\"user\":" << user.references() << "},\"llc_misses\":{\"kernel\":" << kernel.misses()
      << ",\"user\":" << user.misses() << "},\"prefetches\":" << all[Quantity::prefetch_miss]
      << ",\"write_backs\":" << all[Quantity::write_back] << "," << since(&by_core_[core], moved)
      << "}";
}

void GroundTruth::write_rmids(std::ostream &out, const MemoryHierarchy &h) {
  const char *comma = "";
  out << "\"rmids\":[";
  for (unsigned i = 0; i < by_rmid_.size(); i++) {
    const std::uint64_t held = h.cache().lines_held(static_cast<std::uint16_t>(i)) * kLineBytes;
    const TrafficBytes m = since(&by_rmid_[i], h.traffic_by_rmid(i));
    if (m.read == 0 && m.write == 0 && held == 0) continue;
    out << comma << "{\"rmid\":" << i << "," << m << ",\"occupancy_bytes\":" << held << "}";
    comma = ",";
  }
  out << "],";
}

void GroundTruth::write_pids(std::ostream &out, const MemoryHierarchy &h) {
  const char *comma = "";
  out << "\"pids\":[";
  for (Pid p = 0; p < kPids; p++) {
    const TrafficBytes m = since(&by_pid_[p], h.traffic_by_pid(p));
    if (m.read == 0 && m.write == 0) continue;
    out << comma << "{\"pid\":" << p << "," << m << "}";
    comma = ",";
  }
  out << "],";
}

void GroundTruth::write(std::ostream &out, Ps now, const std::vector<CountsByRing> &cores,
                        MemoryHierarchy *h) {
  out << "{\"at_ns\":" << now / kPsPerNs << ",\"interval_ns\":" << (now - since_) / kPsPerNs
      << ",\"cores\":[";
  since_ = now;
  for (unsigned i = 0; i < cores.size(); i++) write_core(out, i, cores[i], h->traffic(i));
  out << "],";
  write_rmids(out, *h);
  write_pids(out, *h);
  write_memory(out, h->memory_port().memory());
  out << "}\n";
  h->memory_port().clear_stats();
}

}  // namespace drfq::hardware
