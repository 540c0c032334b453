// SPDX-License-Identifier: GPL-2.0-only
#include "host/decision_log.hh"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace drfq {
namespace {

/// Keeps the order of its keys, so that a log is easy to compare.
using Json = nlohmann::ordered_json;

}  // namespace

DecisionWriter::DecisionWriter(std::ostream &out, const std::string &source,
                               const ControllerOptions &o, unsigned banks, Ps row_to_column,
                               std::uint64_t most)
    : out_(out), left_(most) {
  if (o.fill)
    throw std::invalid_argument(
        "a log of decisions does not hold what 'fill' depends on; log a controller without it");
  const Json drain = {o.drain.high_percent, o.drain.low_percent, o.drain.min_writes,
                      o.drain.min_reads};
  out_ << Json{{"drfq_decisions", 1},
               {"source", source},
               {"policy", name(o.policy)},
               {"cores", o.cores},
               {"read_entries", o.read_entries},
               {"write_entries", o.write_entries},
               {"admission", o.admission == AdmissionRule::share ? "share" : "thesis"},
               {"tie_bursts", o.runs.tie},
               {"run_bursts", o.runs.any},
               {"prepare", o.prepare ? 1 : 0},
               {"batch", o.batch ? 1 : 0},
               {"aging_ps", o.aging},
               {"drain", drain},
               {"banks", banks},
               {"row_to_column_ps", row_to_column}}
       << "\n";
}

void DecisionWriter::wrote(Ps at, std::uint64_t offset, std::uint64_t value) {
  if (wants_more()) out_ << Json{{"w", {at, offset, value}}} << "\n";
}

void DecisionWriter::arrived(Ps at, const Arrival &a, const Verdict &v) {
  if (!wants_more()) return;
  const Json event = {at,
                      index(a.dir),
                      a.bytes,
                      a.bursts,
                      a.in_flight,
                      a.label.core,
                      a.label.substream,
                      static_cast<unsigned>(v.admission),
                      v.attribution.pid,
                      v.attribution.vtime};
  out_ << Json{{"a", event}} << "\n";
}

void DecisionWriter::queued(unsigned bank, std::uint32_t row) {
  if (wants_more()) out_ << Json{{"q", {bank, row}}} << "\n";
}

void DecisionWriter::decided(Ps at, const BankState &s, const Choice &c, const Entry &e) {
  if (!wants_more()) return;
  left_--;
  const Json event = {at,           s.bus_free,     s.turnaround[0], s.turnaround[1],
                      index(c.dir), c.aged ? 1 : 0, e.seq,           e.bank,
                      e.row};
  Json line = {{"d", event},
               {"rows", s.rows},
               {"read", s.column_at[0]},
               {"write", s.column_at[1]},
               {"act", s.activate_at}};
  if (!s.busy.empty()) line["busy"] = s.busy;
  out_ << line << "\n";
}

}  // namespace drfq
