// SPDX-License-Identifier: GPL-2.0-only
// A log of everything a controller was told and every decision it took, so that
// the core can be asked the same again off line. DECISIONS.md is the description
// of the format.
#ifndef DRFQ_DECISIONS_HH
#define DRFQ_DECISIONS_HH

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "../core/controller.hh"

namespace drfq {

/// What a decision could see of the DRAM, by flat bank number.
struct BankState {
  Ps bus_free = 0;
  Ps turnaround[2] = {0, 0};       ///< to read, to write
  std::vector<std::int64_t> rows;  ///< open row, -1: none
  std::vector<Ps> column_at[2];    ///< by direction
  std::vector<Ps> activate_at;
  std::set<unsigned> busy;  ///< banks of ranks that take no commands
};

class DecisionWriter {
 public:
  /// source: who decides, with its version. most: decisions after which the log ends.
  DecisionWriter(std::ostream &out, const std::string &source, const ControllerOptions &o,
                 unsigned banks, Ps row_to_column, std::uint64_t most)
      : out_(out), left_(most) {
    out_ << "{\"drfq_decisions\":1,\"source\":\"" << source << "\",\"policy\":\"" << name(o.policy)
         << "\",\"cores\":" << o.cores << ",\"read_entries\":" << o.read_entries
         << ",\"write_entries\":" << o.write_entries << ",\"tie_bursts\":" << o.tie_bursts
         << ",\"prepare\":" << (o.prepare ? 1 : 0) << ",\"aging_ps\":" << o.aging << ",\"drain\":["
         << o.drain.high_percent << "," << o.drain.low_percent << "," << o.drain.min_writes << ","
         << o.drain.min_reads << "],\"banks\":" << banks
         << ",\"row_to_column_ps\":" << row_to_column << "}\n";
  }

  /// False once the log is complete; nothing is written any more.
  bool wants_more() const { return left_ != 0; }

  void wrote(Ps at, std::uint64_t offset, std::uint64_t value) {
    if (wants_more()) out_ << "{\"w\":[" << at << "," << offset << "," << value << "]}\n";
  }

  void arrived(Ps at, const Arrival &a, const Verdict &v) {
    if (!wants_more()) return;
    out_ << "{\"a\":[" << at << "," << index(a.dir) << "," << a.bytes << "," << a.bursts << ","
         << a.in_flight << "," << a.label.core << "," << a.label.substream << ","
         << static_cast<unsigned>(v.admission) << "," << v.owner.pid << "," << v.owner.vtime
         << "]}\n";
  }

  /// One burst of the packet that arrived last entered its queue.
  void queued(unsigned bank, std::uint32_t row) {
    if (wants_more()) out_ << "{\"q\":[" << bank << "," << row << "]}\n";
  }

  void decided(Ps at, const BankState &s, const Choice &c, const Entry &e) {
    if (!wants_more()) return;
    left_--;
    out_ << "{\"d\":[" << at << "," << s.bus_free << "," << s.turnaround[0] << ","
         << s.turnaround[1] << "," << index(c.dir) << "," << (c.aged ? 1 : 0) << "," << e.seq << ","
         << e.bank << "," << e.row << "]";
    list("rows", s.rows);
    list("read", s.column_at[0]);
    list("write", s.column_at[1]);
    list("act", s.activate_at);
    if (!s.busy.empty()) list("busy", s.busy);
    out_ << "}\n";
  }

 private:
  template <class Values>
  void list(const char *key, const Values &values) {
    out_ << ",\"" << key << "\":";
    char before = '[';
    for (const auto &v : values) {
      out_ << before << v;
      before = ',';
    }
    out_ << "]";
  }

  std::ostream &out_;
  std::uint64_t left_;
};

}  // namespace drfq

#endif
