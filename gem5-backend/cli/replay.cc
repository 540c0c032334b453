// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc record and drfq-mc replay: traces out of and into the model.
#include <fstream>
#include <iostream>

#include "../model/trace.hh"
#include "commands.hh"
#include "decisions.hh"
#include "experiment.hh"

namespace drfq {
namespace {

constexpr const char *kReplayHelp =
    "usage: drfq-mc replay [--memory FILE] [--log FILE] TRACE...\n"
    "       drfq-mc replay --decisions LOG...\n"
    "  --memory FILE  take the [memory] table of this experiment file\n"
    "  --log FILE     write every decision, one a line (with one TRACE only)\n"
    "  --decisions    ask the core again for the decisions of these logs, for example of\n"
    "                 gem5; exit 3 when one differs\n";

constexpr const char *kRecordHelp =
    "usage: drfq-mc record --out TRACE EXPERIMENT\n"
    "  Writes the packets of the experiment's first combination and seed.\n";

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

void replay(const MemoryOptions &options, const std::string &file, std::ostream *log) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  Memory memory(options);
  DecisionLog decisions(log != nullptr ? *log : std::cout);
  if (log != nullptr) memory.observe(&decisions);
  TraceReader reader(file, in);
  for (TraceRecord r; reader.next(&r);) {
    memory.advance(r.at);
    if (r.what == TraceRecord::What::write) {
      memory.controller().registers().write(r.offset, r.value);
    } else if (r.packet.bytes > memory.max_packet_bytes()) {
      throw std::runtime_error(file + ": a packet of " + std::to_string(r.packet.bytes) +
                               " bytes is more than the queues hold");
    } else {
      memory.submit(r.packet, r.at);
    }
  }
  memory.drain(true);
  while (memory.next_event() != kNever) memory.advance(memory.next_event());
  const Stats &s = memory.stats();
  std::uint64_t refused = 0;
  for (const auto &by_cause : s.refused)
    for (std::uint64_t n : by_cause) refused += n;
  std::cout << file << ": " << s.packets[0] << " reads and " << s.packets[1] << " writes in "
            << memory.now() / 1000 << " ns, " << refused << " refused, "
            << s.row_hits[0] + s.row_hits[1] << " row hits of " << s.bursts[0] + s.bursts[1]
            << " bursts, " << s.turnarounds << " turnarounds\n";
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

int command_replay(const Arguments &args) {
  std::string memory_file, log_file;
  bool decisions = false;
  std::vector<std::string> traces;
  for (std::size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--help" || args[i] == "-h") {
      std::cout << kReplayHelp;
      return 0;
    }
    if (args[i] == "--decisions") {
      decisions = true;
    } else if ((args[i] == "--memory" || args[i] == "--log") && i + 1 < args.size()) {
      (args[i] == "--memory" ? memory_file : log_file) = args[i + 1];
      i++;
    } else if (args[i][0] == '-') {
      throw UsageError("replay: unexpected '" + args[i] + "'\n" + kReplayHelp);
    } else {
      traces.push_back(args[i]);
    }
  }
  if (traces.empty() || (!log_file.empty() && traces.size() != 1))
    throw UsageError(std::string("replay: a trace is needed, and one only with --log\n") +
                     kReplayHelp);
  if (decisions) {
    if (!memory_file.empty() || !log_file.empty())
      throw UsageError(std::string("replay: --decisions goes with logs alone\n") + kReplayHelp);
    bool same = true;
    for (const std::string &t : traces) same = replay_log(t) && same;
    return same ? 0 : 3;
  }
  MemoryOptions options;
  if (!memory_file.empty()) options = load_memory(toml::parse(memory_file, read_file(memory_file)));
  std::ofstream log;
  if (!log_file.empty()) log.open(log_file);
  for (const std::string &t : traces) replay(options, t, log_file.empty() ? nullptr : &log);
  log.close();
  if (!log_file.empty() && !log) throw std::runtime_error("cannot write " + log_file);
  return 0;
}

int command_record(const Arguments &args) {
  std::string out_file, file;
  for (std::size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--help" || args[i] == "-h") {
      std::cout << kRecordHelp;
      return 0;
    }
    if (args[i] == "--out" && i + 1 < args.size())
      out_file = args[++i];
    else if (args[i][0] == '-' || !file.empty())
      throw UsageError("record: unexpected '" + args[i] + "'\n" + kRecordHelp);
    else
      file = args[i];
  }
  if (file.empty() || out_file.empty())
    throw UsageError(std::string("record: an experiment and --out are needed\n") + kRecordHelp);
  const Experiment e = load_experiment(file, read_file(file));
  std::ofstream out(out_file);
  TraceWriter writer(out);
  Scenario s = e.points[0].scenario;
  s.seed = e.seeds[0];
  run(s, &writer);
  out.close();
  if (!out) throw std::runtime_error("cannot write " + out_file);
  return 0;
}

}  // namespace drfq
