// SPDX-License-Identifier: GPL-2.0-only
// One memory channel: the controller core in front of the DRAM, driven by
// events. This is the interface that a host of the model uses:
//
//   Memory memory(options);
//   memory.listen(&listener);            // completions and room
//   memory.controller().registers()...   // the agent's side
//   Admission a = memory.submit(packet, now);
//   memory.advance(to);                  // calls the listener on the way
//
// The caller keeps a refused packet. It submits the packet again after room() of the
// packet's direction, or at times of its choice. The listener may submit from inside
// its calls. Time never goes back: an earlier now means the present.
//
// Deterministic: the same calls give the same results. Allocates only when
// built. Not thread-safe.
#ifndef DRFQ_MEMORY_HH
#define DRFQ_MEMORY_HH

#include <stdexcept>

#include "core/controller.hh"
#include "address.hh"
#include "dram.hh"
#include "presets.hh"
#include "ring.hh"
#include "row_heads.hh"
#include "stats.hh"
#include "write_index.hh"

namespace drfq {

/// How agents reach the controller.
enum class Ports : std::uint8_t {
  multi,   ///< a port each: a refused packet holds up its own agent only
  single,  ///< behind a crossbar: a refused packet holds up all agents
};

struct Packet {
  std::uint64_t address = 0;
  std::uint32_t bytes = 64;  ///< 1..Memory::max_packet_bytes()
  Dir dir = Dir::read;
  Label label;
  std::uint32_t port = 0;    ///< the agent, for Ports::single and for the listener
  std::uint64_t cookie = 0;  ///< returned with the completion
};

struct Completion {
  std::uint64_t cookie = 0;
  std::uint32_t port = 0;
  Dir dir = Dir::read;
  Ps accepted = 0;
  Ps at = 0;  ///< reads: when the data is back; writes: when they are acknowledged
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void completed(const Completion &) = 0;
  /// Refused packets of this direction may be admitted now.
  virtual void room(Dir, Ps now) = 0;
};

/// Sees every decision; for logs, tests and replay.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void arrived(Ps, const Packet &, Admission) {}
  virtual void issued(Ps, const Entry &, const Choice &, const Dram::Burst &) {}
  /// A register was written. The host reports this, because the host writes the registers.
  virtual void wrote(Ps, std::uint64_t /*offset*/, std::uint64_t /*value*/) {}
};

struct MemoryOptions {
  ControllerOptions controller;
  Timing timing = lpddr2_1066_x32();
  Ports ports = Ports::multi;
};

class Memory {
 public:
  explicit Memory(const MemoryOptions &o)
      : ports_(o.ports),
        decoder_(checked(o.timing)),
        dram_(o.timing),
        controller_(o.controller),
        rows_{RowHeads(dram_.banks()), RowHeads(dram_.banks())} {
    for (unsigned i = 0; i < kSlots; i++) free_[i] = static_cast<std::uint16_t>(i);
    const Timing &t = o.timing;
    turnaround_[index(Dir::read)] = std::min(t.wtr, t.cs);
    turnaround_[index(Dir::write)] = std::min(t.rtw, t.cs);
    const unsigned entries =
        std::min(controller_.queue(Dir::read).capacity(), controller_.queue(Dir::write).capacity());
    max_packet_bytes_ = (entries > 1 ? entries - 1 : 1) * t.burst_bytes;
  }

  void listen(Listener *l) { listener_ = l; }
  void observe(Observer *o) { observer_ = o; }
  Controller &controller() { return controller_; }
  const Controller &controller() const { return controller_; }
  const Dram &dram() const { return dram_; }
  const Stats &stats() const { return stats_; }
  void clear_stats() { stats_.clear(now_); }
  Ps now() const { return now_; }

  /// The largest packet that is admitted sooner or later, whatever the queues hold now.
  std::uint32_t max_packet_bytes() const { return max_packet_bytes_; }

  /// While set, frfcfs also serves writes below its low watermark.
  void drain(bool on) {
    drain_ = on;
    wake(now_);
  }

  /// Offers a packet at time now. Throws std::length_error when its bytes are
  /// 0 or too many: such a packet could be refused for ever.
  Admission submit(const Packet &p, Ps now) {
    if (p.bytes == 0 || p.bytes > max_packet_bytes_)
      throw std::length_error("packet size out of range");
    if (now > now_) advance(now);
    const Admission a = offer(p);
    if (observer_ != nullptr) observer_->arrived(now_, p, a);
    if (a == Admission::accepted) return a;
    stats_.refused[index(p.dir)][static_cast<unsigned>(a)]++;
    refused_[index(p.dir)] = true;
    if (ports_ == Ports::single && holder_ == kNoPort) holder_ = p.port;
    return a;
  }

  /// When something happens next; kNever when idle.
  Ps next_event() const {
    // Landing data is an event only while a refused read waits for the buffer.
    const Ps landing = refused_[index(Dir::read)] ? data_.front_time() : kNever;
    return std::min(std::min(landing, replies_.front_time()),
                    std::min(acks_.front_time(), decide_at_));
  }

  /// Runs the next event alone. There must be one.
  void run_next() {
    now_ = std::max(now_, next_event());
    step();
  }

  /// Runs everything up to and including time to.
  void advance(Ps to) {
    for (Ps t = next_event(); t <= to && t != kNever; t = next_event()) {
      now_ = std::max(now_, t);
      step();
    }
    if (to > now_) now_ = to;
  }

 private:
  static constexpr std::uint32_t kNoPort = ~std::uint32_t{0};
  static constexpr unsigned kSlots = 4 * Queue::kMax;

  /// A read packet until it is answered, or one burst of a write until it is served.
  struct Slot {
    Completion done;
    std::uint64_t burst = 0;  ///< writes: address of the burst that waits
    unsigned left = 0;        ///< reads: bursts that are not on the bus yet
  };

  static const Timing &checked(const Timing &t) {
    const std::string wrong = check(t);
    if (!wrong.empty()) throw std::invalid_argument(wrong);
    return t;
  }

  void step() {
    if (refused_[index(Dir::read)] && data_.front_time() <= now_) {
      data_.pop();
      offer_room(Dir::read);
    } else if (replies_.front_time() <= now_) {
      const std::uint16_t handle = replies_.pop();
      const Completion done = finish(&slots_[handle].done);
      release(handle);
      if (listener_ != nullptr) listener_->completed(done);
    } else if (acks_.front_time() <= now_) {
      Completion done = acks_.pop();
      const bool was_full = acks_.size() + 1 == kAcks;
      if (listener_ != nullptr) listener_->completed(finish(&done));
      if (was_full) {
        offer_room(Dir::read);
        offer_room(Dir::write);
      }
    } else {
      decide();
    }
  }

  const Completion &finish(Completion *c) {
    c->at = now_;
    return *c;
  }

  void offer_room(Dir d) {
    if (!refused_[index(d)]) return;
    // With one port, the refused packet that holds the crossbar may be of either direction.
    refused_[0] = refused_[0] && ports_ == Ports::multi && d != Dir::read;
    refused_[1] = refused_[1] && ports_ == Ports::multi && d != Dir::write;
    if (listener_ != nullptr) listener_->room(d, now_);
  }

  /// Frees the buffers of reads whose data has passed.
  void land() {
    while (data_.front_time() <= now_) data_.pop();
  }

  Admission offer(const Packet &p) {
    land();
    if (holder_ != kNoPort && holder_ != p.port) return Admission::blocked;
    const std::uint64_t first = decoder_.burst_of(p.address);
    const std::uint64_t last = decoder_.burst_of(p.address + p.bytes - 1);
    Arrival a;
    a.label = p.label;
    a.dir = p.dir;
    a.bytes = p.bytes;
    a.bursts = static_cast<unsigned>(last - first + 1);
    a.in_flight = data_.size();
    if (acks_.size() == kAcks || used_ + a.bursts + 1 > kSlots) return Admission::full;
    const Verdict v = controller_.arrive(a);
    if (v.admission != Admission::accepted) return v.admission;
    holder_ = kNoPort;
    stats_.packets[index(p.dir)]++;
    stats_.bytes[index(p.dir)][v.attribution.pid] += p.bytes;
    const Completion done{p.cookie, p.port, p.dir, now_, 0};
    if (p.dir == Dir::write)
      accept_write(v.attribution, done, first, last);
    else
      accept_read(v.attribution, done, first, last);
    wake(now_);
    return Admission::accepted;
  }

  void accept_write(const Attribution &attribution, const Completion &done, std::uint64_t first,
                    std::uint64_t last) {
    for (std::uint64_t b = first; b <= last; b++) {
      // A write merges into a burst that already waits at its address and takes its place.
      if (waiting_writes_.holds(b)) {
        stats_.merged++;
        continue;
      }
      const std::uint16_t handle = acquire();
      slots_[handle].burst = b;
      waiting_writes_.add(b);
      enqueue(Dir::write, attribution, b, handle);
    }
    acks_.push(now_ + dram_.timing().frontend, done);
  }

  void accept_read(const Attribution &attribution, const Completion &done, std::uint64_t first,
                   std::uint64_t last) {
    const std::uint16_t handle = acquire();
    unsigned queued = 0;
    for (std::uint64_t b = first; b <= last; b++) {
      if (waiting_writes_.holds(b)) {
        stats_.forwarded++;
        continue;
      }
      enqueue(Dir::read, attribution, b, handle);
      queued++;
    }
    slots_[handle].done = done;
    slots_[handle].left = queued;
    if (queued != 0) return;
    release(handle);
    acks_.push(now_ + dram_.timing().frontend, done);
  }

  void enqueue(Dir d, const Attribution &attribution, std::uint64_t burst, std::uint16_t handle) {
    const Place place = decoder_.decode(burst);
    const Queue::Slot slot =
        controller_.enqueue(d, attribution, now_, place.bank, place.row, handle);
    rows_[index(d)].added(controller_.queue(d), slot, dram_.is_open(place.bank, place.row));
  }

  void wake(Ps at) {
    if (decide_at_ == kNever) decide_at_ = std::max(at, next_request_);
  }

  /// The View of core/pick.hh.
  struct View {
    const Dram &dram;
    RowHeads (&rows)[2];
    bool ready(const Entry &e) const { return dram.ready(e); }
    bool row_hit(const Entry &e) const { return dram.row_hit(e); }
    Ps column_at(const Entry &e, Dir d) const { return dram.column_at(e, d); }
    Ps activate_at(const Entry &e) const { return dram.activate_at(e); }
    Ps row_to_column() const { return dram.row_to_column(); }
    static constexpr bool kTellsFit = true;
    bool fits_before(const Entry &f, const Entry &e, Dir d, Ps min_col_at) const {
      return dram.fits_before(f, e, d, min_col_at);
    }
    const BankHeads &heads(const Queue &q, Dir d, unsigned bank) const {
      return rows[index(d)].of(q, bank);
    }
  };

  void refresh() {
    if (!dram_.refresh(now_)) return;
    for (unsigned b = 0; b < dram_.banks(); b++)
      if (!dram_.is_open(b)) row_closed(b);
  }

  /// Chooses the data bus's next burst and serves it.
  void decide() {
    decide_at_ = kNever;
    refresh();
    const bool waiting =
        !controller_.queue(Dir::read).empty() || !controller_.queue(Dir::write).empty();
    if (!waiting) return;
    const Choice c = controller_.choose(View{dram_, rows_}, now_, bus_free_, turnaround_, drain_);
    if (!c.found) {
      decide_at_ = dram_.available_at();
      return;
    }
    serve(c);
    if (!controller_.queue(Dir::read).empty() || !controller_.queue(Dir::write).empty()) wake(now_);
  }

  void serve(const Choice &c) {
    const bool turned = c.dir != controller_.direction();
    const Queue &q = controller_.queue(c.dir);
    rows_[index(c.dir)].removing(q, q.slot_at(c.place));
    const Entry e = controller_.serve(c);
    const Dram::Burst burst = dram_.issue(e, c.dir, bus_free_);
    keep_rows(e, c.dir, burst.row_hit);
    const Timing &t = dram_.timing();
    bus_free_ = burst.column + t.burst;
    // Decide again just early enough to open a row behind this burst.
    const Ps lead = t.rp + t.rcd;
    next_request_ = std::max(bus_free_ > lead ? bus_free_ - lead : 0, now_);
    stats_.turnarounds += turned;
    stats_.bursts[index(c.dir)]++;
    stats_.row_hits[index(c.dir)] += burst.row_hit;
    stats_.aged += c.aged;
    stats_.wait[index(c.dir)].add(burst.column - e.arrival);
    if (observer_ != nullptr) observer_->issued(now_, e, c, burst);
    if (c.dir == Dir::write) {
      waiting_writes_.remove(slots_[e.handle].burst);
      release(e.handle);
      offer_room(Dir::write);
      return;
    }
    data_.push(burst.data_end, 0);
    if (--slots_[e.handle].left == 0)
      replies_.push(burst.data_end + t.frontend + t.backend, e.handle);
  }

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

  std::uint16_t acquire() { return free_[used_++]; }
  void release(std::uint16_t handle) { free_[--used_] = handle; }

  static constexpr unsigned kAcks = 1024;

  Ports ports_;
  AddressDecoder decoder_;
  Dram dram_;
  Controller controller_;
  RowHeads rows_[2];
  Stats stats_;
  Listener *listener_ = nullptr;
  Observer *observer_ = nullptr;
  Ps turnaround_[2];
  std::uint32_t max_packet_bytes_;
  Ps now_ = 0;
  Ps bus_free_ = 0;        ///< earliest column command for the data bus
  Ps next_request_ = 0;    ///< earliest decision
  Ps decide_at_ = kNever;  ///< the decision that is scheduled
  bool drain_ = false;
  bool refused_[2] = {false, false};
  std::uint32_t holder_ = kNoPort;         ///< port that holds the crossbar
  Ring<std::uint16_t, Queue::kMax> data_;  ///< read bursts on their way
  Ring<std::uint16_t, kSlots> replies_;    ///< slots of answered reads
  Ring<Completion, kAcks> acks_;           ///< writes and forwarded reads
  WriteIndex waiting_writes_;
  std::array<Slot, kSlots> slots_;
  std::array<std::uint16_t, kSlots> free_;
  unsigned used_ = 0;
};

}  // namespace drfq

#endif
