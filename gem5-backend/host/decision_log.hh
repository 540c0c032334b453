// SPDX-License-Identifier: GPL-2.0-only
// A log of the inputs that a controller received and every decision that it took. The
// core can then take the same decisions again, off line. DECISIONS.md describes the format.
#ifndef DRFQ_DECISIONS_HH
#define DRFQ_DECISIONS_HH

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "core/controller.hh"

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

/// The View of core/pick.hh on what a decision could see.
struct BankStateView : PlainView<BankStateView> {
  BankState s;
  Ps rcd = 0;
  bool ready(const Entry &e) const { return s.busy.count(e.bank) == 0; }
  bool row_hit(const Entry &e) const { return s.rows[e.bank] == static_cast<std::int64_t>(e.row); }
  Ps column_at(const Entry &e, Dir d) const { return s.column_at[index(d)][e.bank]; }
  Ps activate_at(const Entry &e) const { return s.activate_at[e.bank]; }
  Ps row_to_column() const { return rcd; }
};

class DecisionWriter {
 public:
  /// source: the program that decides, with its version. most: the log ends after so many
  /// decisions. Throws std::invalid_argument when the controller fills gaps: the log does not hold
  /// what fits.
  DecisionWriter(std::ostream &out, const std::string &source, const ControllerOptions &o,
                 unsigned banks, Ps row_to_column, std::uint64_t most);

  /// False once the log is complete; nothing is written any more.
  bool wants_more() const { return left_ != 0; }

  void wrote(Ps at, std::uint64_t offset, std::uint64_t value);
  void arrived(Ps at, const Arrival &a, const Verdict &v);
  /// One burst of the packet that arrived last entered its queue.
  void queued(unsigned bank, std::uint32_t row);
  void decided(Ps at, const BankState &s, const Choice &c, const Entry &e);

 private:
  std::ostream &out_;
  std::uint64_t left_;
};

}  // namespace drfq

#endif
