// SPDX-License-Identifier: GPL-2.0-only
// The controller: registers, attribution, both queues and every rule, put
// together. It has no clock and no DRAM; a host (the model, a virtual machine,
// a simulator) says when the bus is free and lends a View of its banks.
//
// Not thread-safe. Allocates when built, never afterwards.
#ifndef DRFQ_CONTROLLER_HH
#define DRFQ_CONTROLLER_HH

#include <cstdint>
#include <stdexcept>

#include "admission.hh"
#include "direction.hh"
#include "attribution.hh"
#include "pick.hh"
#include "queue.hh"
#include "registers.hh"

namespace drfq {

enum class Policy : std::uint8_t {
  lvtf = 0,    ///< first-ready, lowest-virtual-time-first: the thesis
  frfcfs = 1,  ///< first-ready, first-come-first-served: the baseline
};

inline const char *name(Policy p) { return p == Policy::lvtf ? "lvtf" : "frfcfs"; }

struct ControllerOptions {
  Policy policy = Policy::lvtf;
  std::uint32_t cores = 4;
  unsigned read_entries = 128;
  unsigned write_entries = 128;
  AdmissionRule admission = AdmissionRule::thesis;  ///< of lvtf
  Runs runs;                                        ///< of lvtf
  bool prepare = false;  ///< lvtf: among the lowest virtual time pick as frfcfs does; thesis: no
  bool fill = false;     ///< lvtf: serve others while a row opens, if the View tells what fits
  bool batch = false;    ///< lvtf: writes wait for others while virtual times tie; thesis: no
  Ps aging = kPsPerMs;   ///< lvtf: an entry older than this goes first; 0: never (thesis)
  WriteDrain drain;      ///< of frfcfs, and of lvtf with batch
};

/// One arriving packet, already cut into bursts by the host.
struct Arrival {
  Label label;
  Dir dir = Dir::read;
  std::uint32_t bytes = 0;
  unsigned bursts = 1;     ///< entries it needs; 0 when none (merged or forwarded)
  unsigned in_flight = 0;  ///< reads that left the queue and still hold a buffer
};

struct Verdict {
  Admission admission = Admission::full;
  Attribution attribution;  ///< the pid that an accepted packet is charged to
};

/// What the data bus does next.
struct Choice {
  bool found = false;
  bool aged = false;  ///< by the aging bound, not by the policy
  Dir dir = Dir::read;
  unsigned place = 0;   ///< in the queue of dir
  bool picked = false;  ///< by the policy's pick alone; see Controller::repeats()
};

class Controller {
 public:
  explicit Controller(const ControllerOptions &o)
      : options_(o),
        lvtf_(o.policy == Policy::lvtf),
        shares_(lvtf_ && o.admission == AdmissionRule::share),
        first_ready_(lvtf_ && !o.prepare),
        regs_(o.cores),
        queues_{Queue(o.read_entries), Queue(o.write_entries)},
        owners_(queue(Dir::read).capacity(), queue(Dir::write).capacity()) {}

  const ControllerOptions &options() const { return options_; }
  RegisterFile &registers() { return regs_; }
  const RegisterFile &registers() const { return regs_; }
  const Queue &queue(Dir d) const { return queues_[index(d)]; }
  Dir direction() const { return dir_; }

  /// Decides on a packet. Bytes are counted on acceptance, because a refused
  /// packet comes again. The caller then enqueues each of its bursts. Every packet and every burst
  /// passes here and through choose_direction(), so neither is a call.
  [[gnu::always_inline]] Verdict arrive(const Arrival &a) {
    Verdict v;
    v.attribution = attribute(regs_, a.label, lately_.get());
    if (v.attribution.known && v.attribution.pid != 0) lately_.came(v.attribution.vtime);
    if (shares_) owners_.arrived(v.attribution.pid, v.attribution.vtime);
    v.admission = decide(a, v.attribution);
    if (v.admission == Admission::accepted)
      regs_.count(v.attribution.pid, a.bytes);
    else
      refused(a, v.attribution);
    return v;
  }

  /// Stands for an arrival that is refused and changes nothing else; see refuses_all().
  void refused_again(Dir d) {
    if (d == Dir::write) write_refused_ = true;
  }

  /// Queues bursts of an accepted packet, neighbours in one row, with the virtual time that
  /// it had on arrival. Returns their slot in the queue.
  Queue::Slot enqueue(Dir d, const Attribution &attribution, Ps now, std::uint16_t bank,
                      std::uint32_t row, std::uint16_t handle, unsigned bursts = 1) {
    const std::uint64_t seq = next_seq_;
    next_seq_ += bursts;
    if (shares_) owners_.queued(attribution.pid, d, bursts);
    if (options_.aging != 0 && lvtf_) overdue_after_ = std::min(overdue_after_, due(now));
    return pinned(&queues_[index(d)])
        ->insert({lvtf_ ? attribution.vtime : 0, seq, now, row, bank, handle,
                  static_cast<std::uint16_t>(attribution.pid), static_cast<std::uint16_t>(bursts)});
  }

  /// Whether a direction refuses every packet of no fewer bursts and no lower a virtual time. With
  /// admission by shares, whether it also changes no claim, and only of owners that came in this
  /// epoch() and have their virtual times of then.
  bool refuses_all(Dir d, unsigned in_flight, unsigned bursts, VTime lowest) const {
    const Queue &q = queue(d);
    const unsigned held = d == Dir::read ? in_flight : 0;
    if (!lvtf_) return !has_room(q, held, bursts);
    if (!shares_) return admit(q, held, bursts, lowest) != Admission::accepted;
    return may_refuse_all(d, bursts) &&
           refuses_rest(q, owners_.rest(lowest, d), held, bursts, lowest);
  }

  /// Whether refuses_all() may be true. By shares of a few owners it never is.
  bool may_refuse_all(Dir d, unsigned bursts) const {
    return !shares_ || (owners_.has_part_below(bursts, d) && !owners_.may_starve(d));
  }

  /// A refused packet keeps its owner active (owners.hh) in the epoch that it comes in; 0 without
  /// admission by shares.
  std::uint64_t epoch() const { return shares_ ? owners_.epoch() : 0; }
  bool shares() const { return shares_; }

  /// Direction of the next burst. drain: the host empties the write queue.
  [[gnu::always_inline]] Dir choose_direction(bool drain = false) const {
    const Queue &r = queue(Dir::read), &w = queue(Dir::write);
    if (lvtf_ && w.empty() && !r.empty()) return Dir::read;
    if (lvtf_ && !w.empty()) {
      if (options_.batch && !drain && leaves_open(r))
        return options_.drain.batch(r, w, dir_, run_, options_.runs.tie, write_refused_);
      return lower_of(r, lowest(Dir::read), w, lowest(Dir::write), dir_, run_, options_.runs);
    }
    if (drain && r.empty() && !w.empty()) return Dir::write;
    return options_.drain.next(r, w, lvtf_ ? options_.drain.after(r, w, dir_, run_) : decided_);
  }

  /// The next burst, if one can be served. bus_free: when the data bus is next free;
  /// turnaround: what a change to each direction adds (both for frfcfs only).
  template <class View>
  const Choice &choose(const View &view, Ps now, Ps bus_free, const Ps (&turnaround)[2],
                       bool drain = false) {
    Choice &c = choice_;
    c.aged = is_overdue(now) && overdue(view, now);
    if (c.aged) return c;
    c.dir = choose_direction(drain);
    const Queue &q = queue(c.dir);
    const Ps turn = c.dir != dir_ ? turnaround[index(c.dir)] : 0;
    const Ps min_col = bus_free + turn > now ? bus_free + turn : now;
    const bool owed = shares_ && owed_[index(c.dir)].bursts != 0;
    c.place = first_ready_ && !owed ? pick_first_ready(q, c.dir, view)
                                    : pick_frfcfs(q, c.dir, view, min_col, now,
                                                  owed ? Among::all : Among::lowest_vtime);
    c.found = c.place < q.entries();
    c.picked = !owed;
    if (!c.found || owed || !lvtf_ || !options_.fill) return c;
    const unsigned filled = fill(q, queue(other(c.dir)), c, view, min_col);
    c.picked = filled == c.place;
    c.place = filled;
    return c;
  }

  /// Nothing is overdue by the aging bound before then; kNever: nothing will be.
  Ps overdue_at() const { return overdue_after_ == kNever ? kNever : overdue_after_ + 1; }

  /// What choose() returned last.
  const Choice &choice() const { return choice_; }

  /// Whether choose() would take the next burst of the entry that it took last. Since then, no
  /// entry came before that one, and no row opened or closed but its own. alone(): whether no other
  /// bank has a row hit in its direction, and its bursts leave no gap on the bus, which `fill`
  /// would use.
  template <class F>
  bool repeats(Ps now, bool drain, F alone) const {
    const Dir d = choice_.dir;
    return choice_.picked && !(shares_ && owed_[index(d)].bursts != 0) && !is_overdue(now) &&
           choose_direction(drain) == d && ((first_ready_ && !options_.fill) || alone());
  }

  /// Takes the chosen entry's first burst out of its queue and turns the bus if needed. Returns
  /// the entry as it was.
  Entry serve(const Choice &c) {
    const Entry e = queue(c.dir).at(c.place);
    take(c);
    return e;
  }

  /// The same; returns what is left of the entry. It stays readable until the next enqueue().
  const Entry &take(const Choice &c) {
    if (c.dir != dir_) {
      dir_ = c.dir;
      run_ = 0;
    }
    run_++;
    const Entry &left = pinned(&queues_[index(c.dir)])->remove(c.place);
    if (shares_) {
      owners_.served(left.pid, c.dir);
      unsigned &owed = owed_[index(c.dir)].bursts;
      owed = queue(c.dir).empty() || owed == 0 ? 0 : owed - 1;
    }
    if (c.dir == Dir::read)
      last_read_ = left.vtime;
    else
      write_refused_ = false;
    if (!lvtf_) decided_ = options_.drain.after(queue(Dir::read), queue(Dir::write), dir_, run_);
    return left;
  }

  /// The state while both queues are empty (state.hh); std::logic_error while they are not.
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    if (!self.queues_[0].empty() || !self.queues_[1].empty())
      throw std::logic_error("a controller's state has no queue, so both must be empty");
    f.same(static_cast<unsigned>(self.options_.policy), "policy");
    f.same(self.queues_[0].capacity(), "read entries");
    f.same(self.queues_[1].capacity(), "write entries");
    f.same(self.shares_, "admission");
    f(self.regs_, self.owners_, self.owed_, self.dir_, self.run_, self.decided_, self.next_seq_,
      self.lately_, self.overdue_after_, self.last_read_, self.write_refused_);
  }

 private:
  /// Bursts that are served as FR-FCFS does, so that a refused packet finds the room that owners
  /// behind it hold. Until then the queue counts as one that has this packet.
  struct Owed {
    unsigned bursts = 0;
    VTime vtime = 0;  ///< the lowest of the refused packets

    template <class Self, class F>
    static void parts(Self &self, F &f) {
      f(self.bursts, self.vtime);
    }
  };

  void refused(const Arrival &a, const Attribution &by) {
    refused_again(a.dir);
    if (!shares_) return;
    const Queue &q = queue(a.dir);
    const unsigned lacks = owners_.refused(by.pid, a.dir, a.bursts);
    if (lacks == 0) return;
    Owed &owed = owed_[index(a.dir)];
    owed.vtime = owed.bursts == 0 ? by.vtime : std::min(owed.vtime, by.vtime);
    owed.bursts = std::max(owed.bursts, std::min(lacks, q.size()));
  }

  /// The lowest virtual time of a queue that has entries, or of a packet that it owes room.
  VTime lowest(Dir d) const {
    const VTime head = queue(d).empty() ? 0 : queue(d).head().vtime;
    if (!shares_) return head;
    const Owed &owed = owed_[index(d)];
    return owed.bursts != 0 ? std::min(head, owed.vtime) : head;
  }

  /// Whether virtual times do not tell the direction: those of the heads tie, or those of the first
  /// write and of the last read while none waits. A write waits.
  bool leaves_open(const Queue &reads) const {
    return lowest(Dir::write) == (reads.empty() ? last_read_ : lowest(Dir::read));
  }

  template <class View>
  static unsigned fill(const Queue &q, const Queue &ahead, const Choice &c, const View &view,
                       Ps min_col) {
    if constexpr (View::kTellsFit)
      return fill_gap(q, ahead, c.place, c.dir, view, min_col);
    else
      throw std::logic_error("this host's DRAM does not tell what fits, so 'fill' must be off");
  }

  Admission decide(const Arrival &a, const Attribution &by) const {
    if (a.bursts == 0) return Admission::accepted;
    const Queue &q = queue(a.dir);
    const unsigned in_flight = a.dir == Dir::read ? a.in_flight : 0;
    if (shares_) return admit_share(q, owners_, a.dir, in_flight, a.bursts, by.pid, by.vtime);
    if (lvtf_) return admit(q, in_flight, a.bursts, by.vtime);
    return has_room(q, in_flight, a.bursts) ? Admission::accepted : Admission::full;
  }

  /// When an entry that arrived then has waited for as long as the aging bound.
  Ps due(Ps arrival) const {
    return arrival > kNever - options_.aging ? kNever : arrival + options_.aging;
  }

  /// Whether an entry may have waited longer than the aging bound.
  bool is_overdue(Ps now) const { return now > overdue_after_; }

  /// Chooses the entry that waited longer than the aging bound, if there is one.
  template <class View>
  bool overdue(const View &view, Ps now) {
    Choice &c = choice_;
    // overdue_after_ only says that nothing is older; look again.
    overdue_after_ = kNever;
    for (Dir d : {Dir::read, Dir::write}) {
      const Queue &q = queue(d);
      if (q.empty()) continue;
      const unsigned place = q.oldest();
      const Ps after = due(q.at(place).arrival);
      if (after >= overdue_after_) continue;
      overdue_after_ = after;
      c.dir = d;
      c.place = place;
    }
    c.found = now > overdue_after_ && view.ready(queue(c.dir).at(c.place));
    c.picked = false;
    return c.found;
  }

  ControllerOptions options_;
  bool lvtf_;
  bool shares_;       // admission by shares
  bool first_ready_;  // the thesis' rule picks
  RegisterFile regs_;
  Queue queues_[2];
  Owners owners_;  // with admission by shares only
  Owed owed_[2];
  Dir dir_ = Dir::read;
  std::uint64_t run_ = 0;
  Dir decided_ = Dir::read;  // frfcfs: after the last burst
  std::uint64_t next_seq_ = 0;
  LowestLately lately_;         // of owners whose virtual time is known
  VTime last_read_ = 0;         // virtual time of the read that was served last
  bool write_refused_ = false;  // since a write was served
  Choice choice_;
  Ps overdue_after_ = kNever;  // until then, no entry has waited longer than the aging bound
};

}  // namespace drfq

#endif
