// SPDX-License-Identifier: GPL-2.0-only
// The controller's core in front of the DRAM: what the data bus carries next, and when. It has
// no events and no packets; memory.hh has both.
#ifndef DRFQ_CHANNEL_HH
#define DRFQ_CHANNEL_HH

#include <algorithm>

#include "address.hh"
#include "core/controller.hh"
#include "dram.hh"
#include "row_heads.hh"

namespace drfq {

class Channel {
 public:
  /// A burst that was served.
  struct Served {
    Choice choice;
    Entry entry;
    Dram::Burst burst;
    bool turned = false;  ///< the data bus changed its direction
  };

  Channel(const ControllerOptions &o, const Timing &t)
      : dram_(t), controller_(o), rows_{RowHeads(dram_.banks()), RowHeads(dram_.banks())} {
    turnaround_[index(Dir::read)] = std::min(t.wtr, t.cs);
    turnaround_[index(Dir::write)] = std::min(t.rtw, t.cs);
  }

  Controller &controller() { return controller_; }
  const Controller &controller() const { return controller_; }
  const Dram &dram() const { return dram_; }

  bool waiting() const {
    return !controller_.queue(Dir::read).empty() || !controller_.queue(Dir::write).empty();
  }

  /// The earliest time of the next decision.
  Ps next_request() const { return next_request_; }

  /// Queues one burst of an accepted packet.
  void enqueue(Dir d, const Attribution &attribution, Ps now, const Place &place,
               std::uint16_t handle) {
    const Queue::Slot slot =
        controller_.enqueue(d, attribution, now, place.bank, place.row, handle);
    rows_[index(d)].added(controller_.queue(d), slot, dram_.is_open(place.bank, place.row));
  }

  /// Starts the refreshes that are due. Call before serve().
  void refresh(Ps now) {
    if (!dram_.refresh(now)) return;
    for (unsigned b = 0; b < dram_.banks(); b++)
      if (!dram_.is_open(b)) row_closed(b);
  }

  /// Chooses the data bus's next burst and issues it; false when none can be served now. drain:
  /// the host empties the write queue.
  bool serve(Ps now, bool drain, Served *out) {
    const Choice c = controller_.choose(View{dram_, rows_}, now, bus_free_, turnaround_, drain);
    if (!c.found) return false;
    out->choice = c;
    out->turned = c.dir != controller_.direction();
    const Queue &q = controller_.queue(c.dir);
    rows_[index(c.dir)].removing(q, q.slot_at(c.place));
    out->entry = controller_.serve(c);
    out->burst = dram_.issue(out->entry, c.dir, bus_free_);
    keep_rows(out->entry, c.dir, out->burst.row_hit);
    const Timing &t = dram_.timing();
    bus_free_ = out->burst.column + t.burst;
    // Decide again just early enough to open a row behind this burst.
    const Ps lead = t.rp + t.rcd;
    next_request_ = std::max(bus_free_ > lead ? bus_free_ - lead : 0, now);
    return true;
  }

 private:
  /// The View of core/pick.hh.
  struct View {
    const Dram &dram;
    RowHeads (&rows)[2];
    static constexpr bool kTellsFit = true;
    bool ready(const Entry &e) const { return dram.ready(e); }
    bool row_hit(const Entry &e) const { return dram.row_hit(e); }
    Ps column_at(const Entry &e, Dir d) const { return dram.column_at(e, d); }
    Ps activate_at(const Entry &e) const { return dram.activate_at(e); }
    Ps row_to_column() const { return dram.row_to_column(); }
    bool fits_before(const Entry &f, const Entry &e, Dir d, Ps min_col_at) const {
      return dram.fits_before(f, e, d, min_col_at);
    }
    const BankHeads &heads(const Queue &q, Dir d, unsigned bank) const {
      return rows[index(d)].of(q, bank);
    }
  };

  /// Updates the row heads after a burst, and applies the page policy to its bank.
  void keep_rows(const Entry &e, Dir d, bool hit) {
    if (!hit)
      for (RowHeads &r : rows_) r.opened(e.bank, e.row);
    const BankHeads &mine = rows_[index(d)].of(controller_.queue(d), e.bank);
    if (dram_.settle(e.bank, mine.hit != Queue::kNone, mine.miss != Queue::kNone))
      row_closed(e.bank);
  }

  void row_closed(unsigned bank) {
    for (Dir q : {Dir::read, Dir::write}) rows_[index(q)].closed(controller_.queue(q), bank);
  }

  Dram dram_;
  Controller controller_;
  RowHeads rows_[2];
  Ps turnaround_[2];
  Ps bus_free_ = 0;      ///< earliest column command for the data bus
  Ps next_request_ = 0;  ///< earliest decision
};

}  // namespace drfq

#endif
