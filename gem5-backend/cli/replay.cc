// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc record and drfq-mc replay: traces out of and into the model.
#include <fstream>
#include <iostream>

#include "cli/commands.hh"
#include "config/memory_table.hh"
#include "host/decision_replay.hh"
#include "host/results.hh"
#include "model/trace.hh"

namespace drfq {
namespace {

/// A trace may be so long. Each refresh up to its times is simulated.
constexpr Ps kLongest = Ps{3600} * 1000000000000;

/// One line for each arrival and each burst: what the reference is compared with.
class DecisionLog final : public Observer {
 public:
  explicit DecisionLog(std::ostream &out) : out_(out) {}

  void arrived(Ps at, const Packet &, Admission a) override {
    out_ << "arrive " << at << " " << name(a) << "\n";
  }

  void issued(Ps at, const Entry &e, const Choice &c, const Dram::Burst &b) override {
    out_ << "serve " << at << " " << name(c.dir) << " " << e.vtime << " " << e.seq << " " << e.bank
         << " " << e.row << (b.row_hit ? " hit " : " miss ") << b.column
         << (c.aged ? " aged\n" : "\n");
  }

 private:
  std::ostream &out_;
};

/// One line about a trace. failed: writes that the registers refused.
void print(const std::string &file, const Memory &memory, std::uint64_t failed) {
  const Stats &s = memory.stats();
  std::uint64_t refused = 0;
  for (const auto &by_cause : s.refused)
    for (std::uint64_t n : by_cause) refused += n;
  std::cout << file << ": " << s.packets[0] << " reads and " << s.packets[1] << " writes in "
            << memory.now() / 1000 << " ns, " << refused << " refused, "
            << s.row_hits[0] + s.row_hits[1] << " row hits of " << s.bursts[0] + s.bursts[1]
            << " bursts, " << s.turnarounds << " turnarounds";
  if (failed != 0)
    std::cout << ", " << failed
              << " writes of registers failed; give --memory the experiment of the trace";
  std::cout << "\n";
}

void replay(const MemoryOptions &options, const std::string &file, std::ostream *log) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  Memory memory(options);
  DecisionLog decisions(log != nullptr ? *log : std::cout);
  if (log != nullptr) memory.observe(&decisions);
  TraceReader reader(file, in);
  std::uint64_t failed = 0;
  for (TraceRecord r; reader.next(&r);) {
    if (r.at > kLongest)
      throw std::runtime_error(file + ": a time of " + std::to_string(r.at) +
                               " ps is more than an hour");
    memory.advance(r.at);
    if (r.what == TraceRecord::What::write) {
      failed += memory.controller().registers().write(r.offset, r.value) != Access::ok;
    } else if (r.packet.bytes > memory.max_packet_bytes()) {
      throw std::runtime_error(file + ": a packet of " + std::to_string(r.packet.bytes) +
                               " bytes is more than the queues hold");
    } else if (memory.submit(r.packet, r.at) != Admission::accepted) {
      memory.drop(r.packet.port);
    }
  }
  memory.drain(true);
  while (memory.next_event() != kNever) memory.advance(memory.next_event());
  print(file, memory, failed);
}

/// Whether all decisions are the same.
bool replay_log(const std::string &file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  const DecisionReplay r = replay_decisions(file, in);
  std::cout << file << " (" << r.source << "): " << r.decisions_same << " of " << r.decisions
            << " decisions the same (" << r.directions_same << " directions), " << r.arrivals_same
            << " of " << r.arrivals << " admissions\n";
  if (!r.first_difference.empty()) std::cout << r.first_difference << "\n";
  return r.first_difference.empty();
}

}  // namespace

int command_replay(const ReplayOptions &o) {
  if (o.decisions) {
    bool same = true;
    for (const std::string &file : o.files) same = replay_log(file) && same;
    return same ? 0 : 3;
  }
  if (!o.log.empty() && o.files.size() != 1) {
    std::cerr << "drfq-mc: replay --log takes one trace, not " << o.files.size() << "\n";
    return 2;
  }
  MemoryOptions options;
  if (!o.memory.empty()) options = load_memory_file(o.memory);
  std::ofstream log;
  if (!o.log.empty()) log.open(o.log);
  for (const std::string &file : o.files) replay(options, file, o.log.empty() ? nullptr : &log);
  log.close();
  if (!o.log.empty() && !log) throw std::runtime_error("cannot write " + o.log);
  return 0;
}

int command_record(const RecordOptions &o) {
  const Experiment e = load_checked_experiment(o.experiment, read_file(o.experiment));
  std::ofstream out(o.out);
  TraceWriter writer(out);
  Scenario s = e.points[0].scenario;
  s.seed = e.seeds[0];
  run(s, &writer);
  out.close();
  if (!out) throw std::runtime_error("cannot write " + o.out);
  return 0;
}

}  // namespace drfq
