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
    const Entry *left;  ///< of its entry; valid until a burst is queued
    Dram::Burst burst;
    bool turned;  ///< the data bus changed its direction
  };

  Channel(const ControllerOptions &o, const Timing &t)
      : dram_(t), controller_(o), rows_{RowHeads(dram_.banks()), RowHeads(dram_.banks())} {
    turnaround_[index(Dir::read)] = std::min(t.wtr, t.cs);
    turnaround_[index(Dir::write)] = std::min(t.rtw, t.cs);
    lead_ = t.rp + t.rcd;
    for (Dir d : {Dir::read, Dir::write}) seamless_ = seamless_ && dram_.next_in_row(d) == t.burst;
  }

  Controller &controller() { return controller_; }
  const Controller &controller() const { return controller_; }
  const Dram &dram() const { return dram_; }

  bool waiting() const {
    return !controller_.queue(Dir::read).empty() || !controller_.queue(Dir::write).empty();
  }

  /// The earliest time of the next decision.
  Ps next_request() const { return next_request_; }

  /// Queues bursts of an accepted packet, neighbours in one row.
  void enqueue(Dir d, const Attribution &attribution, Ps now, const Place &place,
               std::uint16_t handle, unsigned bursts) {
    const Queue::Slot slot =
        controller_.enqueue(d, attribution, now, place.bank, place.row, handle, bursts);
    const Queue &q = *pinned(&controller_.queue(d));
    rows_[index(d)].added(q, slot, dram_.is_open(place.bank, place.row));
    if (again_ && d == choice().dir && before(q.in(slot), q.in(slot_))) again_ = false;
  }

  /// Starts the refreshes that are due. Call before choose().
  void refresh(Ps now) {
    if (dram_.refresh(now)) refreshed();
  }

  /// Chooses the data bus's next burst; false when none can be served now. drain: the host empties
  /// the write queue.
  bool choose(Ps now, bool drain) {
    return (again_ && controller_.repeats(now, drain, [this] { return is_alone(); })) ||
           choose_anew(now, drain);
  }

  /// Issues the chosen burst. choose() must precede.
  Served serve(Ps now) {
    const Dir d = choice().dir;
    const bool turned = d != controller_.direction();
    const Entry &e = controller_.take(choice());
    const Dram::Burst burst = dram_.issue(e, d, bus_free_);
    if (!burst.row_hit) row_opened(e.bank, e.row);
    again_ = keeps_row(e, d) && e.bursts != 0;
    bus_free_ = burst.column + dram_.timing().burst;
    // Decide again just early enough to open a row behind this burst.
    next_request_ = std::max(bus_free_ > lead_ ? bus_free_ - lead_ : 0, now);
    return {&e, burst, turned};
  }

  /// How the last burst was chosen.
  const Choice &choice() const { return controller_.choice(); }

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
    Ps no_activate_before() const { return dram.no_activate_before(); }
    Ps served_at(const Entry &e, Dir d, Ps min_col_at) const {
      return dram.served_at(e, d, min_col_at);
    }
    Ps shortest_gap() const { return dram.shortest_gap(); }
    bool fits_before(const Entry &f, const Entry &e, Dir d, Ps min_col_at, Ps e_at) const {
      return dram.fits_before(f, e, d, min_col_at, e_at);
    }
    template <class F>
    void each_hit(const Queue &q, Dir d, F f) const {
      rows[index(d)].each_hit(q, f);
    }
    template <class F>
    void each_miss(const Queue &q, Dir d, F f) const {
      rows[index(d)].each_miss(q, f);
    }
  };

  bool choose_anew(Ps now, bool drain) {
    again_ = false;
    controller_.choose(View{dram_, rows_}, now, bus_free_, turnaround_, drain);
    if (!choice().found) return false;
    slot_ = controller_.queue(choice().dir).slot_at(choice().place);
    return true;
  }

  /// Updates the row heads after a burst, and applies the page policy to its bank. Returns whether
  /// the row stays open.
  bool keeps_row(const Entry &e, Dir d) {
    bool unwanted = false;
    if (e.bursts == 0) {
      const BankHeads &waiting = rows_[index(d)].removed(controller_.queue(d), slot_);
      unwanted = waiting.hit == Queue::kNone && waiting.miss != Queue::kNone;
    }
    const bool close = dram_.settle(e.bank, unwanted);
    if (close) row_closed(e.bank);
    return !close;
  }

  /// See Controller::repeats().
  bool is_alone() {
    const Queue &q = controller_.queue(choice().dir);
    return seamless_ && rows_[index(choice().dir)].only_hits_of(q, q.in(slot_).bank);
  }

  void row_opened(unsigned bank, std::uint32_t row) {
    for (Dir q : {Dir::read, Dir::write}) rows_[index(q)].opened(controller_.queue(q), bank, row);
  }

  [[gnu::noinline]] void refreshed() {
    again_ = false;
    for (unsigned b = 0; b < dram_.banks(); b++)
      if (!dram_.is_open(b)) row_closed(b);
  }

  void row_closed(unsigned bank) {
    for (Dir q : {Dir::read, Dir::write}) rows_[index(q)].closed(controller_.queue(q), bank);
  }

  Dram dram_;
  Controller controller_;
  RowHeads rows_[2];
  Ps turnaround_[2];
  Ps lead_;               ///< from a request to a column command in a row that is not open
  bool seamless_ = true;  ///< bursts of one row leave no gap on the bus
  // The entry that was served last. Its next burst follows while nothing can come between.
  Queue::Slot slot_ = 0;
  bool again_ = false;   ///< its entry waits for its open row
  Ps bus_free_ = 0;      ///< earliest column command for the data bus
  Ps next_request_ = 0;  ///< earliest decision
};

}  // namespace drfq

#endif
