// SPDX-License-Identifier: GPL-2.0-only
// One memory: ports, packets and their events around a channel (channel.hh). This is the
// interface that a host of the model uses:
//
//   Memory memory(options);
//   memory.listen(&listener);            // completions and room
//   memory.controller().registers()...   // the agent's side
//   Admission a = memory.submit(packet, now);
//   memory.advance(to);                  // calls the listener on the way
//
// The caller keeps a refused packet. It submits the packet again after room() of the
// packet's direction, or at times of its choice, or drops it. The listener may submit from inside
// its calls. Time never goes back: an earlier now means the present.
//
// Deterministic: the same calls give the same results. Allocates only when
// built. Not thread-safe.
#ifndef DRFQ_MEMORY_HH
#define DRFQ_MEMORY_HH

#include <stdexcept>

#include "address.hh"
#include "channel.hh"
#include "packet.hh"
#include "presets.hh"
#include "ring.hh"
#include "stats.hh"
#include "write_index.hh"

namespace drfq {

struct MemoryOptions {
  ControllerOptions controller;
  Timing timing = lpddr2_1066_x32();
  Ports ports = Ports::multi;
};

class Memory {
 public:
  explicit Memory(const MemoryOptions &o)
      : ports_(o.ports), decoder_(checked(o.timing)), channel_(o.controller, o.timing) {
    for (unsigned i = 0; i < kSlots; i++) free_[i] = static_cast<std::uint16_t>(i);
    const unsigned entries = std::min(controller().queue(Dir::read).capacity(),
                                      controller().queue(Dir::write).capacity());
    max_packet_bytes_ = (entries > 1 ? entries - 1 : 1) * o.timing.burst_bytes;
  }

  void listen(Listener *l) { listener_ = l; }
  void observe(Observer *o) { observer_ = o; }
  Controller &controller() { return channel_.controller(); }
  const Controller &controller() const { return channel_.controller(); }
  const Dram &dram() const { return channel_.dram(); }
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
  /// 0 or too many, or go beyond the last address: such a packet could be refused for ever.
  Admission submit(const Packet &p, Ps now) {
    if (p.bytes == 0 || p.bytes > max_packet_bytes_ || p.address + (p.bytes - 1) < p.address)
      throw std::length_error("packet size or address out of range");
    if (now > now_) advance(now);
    const Admission a = offer(p);
    if (observer_ != nullptr) observer_->arrived(now_, p, a);
    if (a == Admission::accepted) return a;
    stats_.refused[index(p.dir)][static_cast<unsigned>(a)]++;
    refused_[index(p.dir)] = true;
    if (batching_ && p.dir == Dir::write) wake(now_);  // it ends the batch
    if (ports_ == Ports::single && holder_ == kNoPort) holder_ = p.port;
    return a;
  }

  /// Stands for a submit() of a packet that refuses_all() tells of: room() is called again.
  void await_room(Dir d) {
    refused_[index(d)] = true;
    controller().refused_again(d);
  }

  /// The caller drops the refused packet of a port; the single port is free again.
  void drop(std::uint32_t port) {
    if (holder_ == port) holder_ = kNoPort;
  }

  /// Bursts that a packet takes on the data bus.
  unsigned bursts_of(const Packet &p) const {
    return static_cast<unsigned>(decoder_.burst_of(p.address + p.bytes - 1) -
                                 decoder_.burst_of(p.address) + 1);
  }

  /// The lowest virtual time that a packet could have now.
  VTime lowest_vtime(const Packet &p) const {
    return attribute(controller().registers(), p.label, 0).vtime;
  }

  /// Whether submit() would refuse every packet of no fewer bursts and no lower a virtual time; see
  /// Controller::refuses_all(). Not for a single port.
  bool refuses_all(Dir d, unsigned bursts, VTime lowest) const {
    return controller().refuses_all(d, data_.size(), bursts, lowest);
  }

  /// When something happens next; kNever when idle.
  Ps next_event() const { return std::min(next_answer(), decide_at_); }

  /// Runs the next event, which is at a time. Where that is a decision, runs those that follow it
  /// up to and including time to, until another event or a call of the listener.
  void run_next(Ps at, Ps to) {
    now_ = std::max(now_, at);
    step(to);
  }

  /// Runs everything up to and including time to.
  void advance(Ps to) {
    for (Ps t = next_event(); t <= to && t != kNever; t = next_event()) run_next(t, to);
    if (to > now_) now_ = to;
  }

 private:
  static constexpr std::uint32_t kNoPort = ~std::uint32_t{0};
  static constexpr unsigned kSlots = 4 * Queue::kMax;

  /// A read packet until it is answered, or an entry of the write queue until it is served.
  struct Slot {
    std::uint64_t cookie = 0;
    Ps accepted = 0;
    std::uint32_t port = 0;
    unsigned left = 0;        ///< reads: bursts that are not on the bus yet
    std::uint64_t burst = 0;  ///< writes: address of the first burst that waits
  };

  const Timing &timing() const { return channel_.dram().timing(); }

  static const Timing &checked(const Timing &t) {
    const std::string wrong = check(t);
    if (!wrong.empty()) throw std::invalid_argument(wrong);
    return t;
  }

  /// The next event that is no decision.
  Ps next_answer() const {
    // Landing data is an event only while a refused read waits for the buffer.
    const Ps landing = refused_[index(Dir::read)] ? data_.front_time() : kNever;
    return std::min(landing, std::min(replies_.front_time(), acks_.front_time()));
  }

  void step(Ps to) {
    if (refused_[index(Dir::read)] && data_.front_time() <= now_) {
      data_.pop();
      offer_room(Dir::read);
    } else if (replies_.front_time() <= now_) {
      const std::uint16_t handle = replies_.pop();
      const Slot &slot = slots_[handle];
      const Completion done{slot.cookie, slot.port, Dir::read, slot.accepted, now_};
      const bool was_full = lacks_slots(Queue::kMax);
      release(handle);
      if (listener_ != nullptr) listener_->completed(done);
      if (was_full) offer_all();
    } else if (acks_.front_time() <= now_) {
      Completion done = acks_.pop();
      const bool was_full = acks_.size() + 1 == kAcks;
      done.at = now_;
      if (listener_ != nullptr) listener_->completed(done);
      if (was_full) offer_all();
    } else {
      called_ = false;
      do {
        now_ = std::max(now_, decide_at_);
        decide();
      } while (!called_ && decide_at_ <= to && decide_at_ < next_answer());
    }
  }

  void offer_all() {
    offer_room(Dir::read);
    offer_room(Dir::write);
  }

  void offer_room(Dir d) {
    if (!refused_[index(d)]) return;
    // With one port, the refused packet that holds the crossbar may be of either direction.
    refused_[0] = refused_[0] && ports_ == Ports::multi && d != Dir::read;
    refused_[1] = refused_[1] && ports_ == Ports::multi && d != Dir::write;
    // So refuses_all() counts no buffer that is free.
    land();
    called_ = true;
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
    if (acks_.size() == kAcks || lacks_slots(a.bursts)) return Admission::full;
    const Verdict v = controller().arrive(a);
    if (v.admission != Admission::accepted) return v.admission;
    holder_ = kNoPort;
    stats_.packets[index(p.dir)]++;
    stats_.bytes[index(p.dir)][v.attribution.pid] += p.bytes;
    if (p.dir == Dir::write)
      accept_write(v.attribution, p, first, last);
    else
      accept_read(v.attribution, p, first, last);
    wake(now_);
    return Admission::accepted;
  }

  /// Whether reads that are not answered and bursts of writes that are not served leave too few
  /// slots for a packet.
  bool lacks_slots(unsigned bursts) const {
    const Queue &writes = controller().queue(Dir::write);
    return used_ >= kSlots - 2 * Queue::kMax &&
           used_ + writes.size() - writes.entries() + bursts + 1 > kSlots;
  }

  void accept_write(const Attribution &attribution, const Packet &p, std::uint64_t first,
                    std::uint64_t last) {
    // A write merges into a burst that already waits at its address and takes its place.
    stats_.merged += each_run(first, last, [&](std::uint64_t from, unsigned bursts) {
      const std::uint16_t handle = acquire();
      slots_[handle].burst = from;
      for (unsigned i = 0; i < bursts; i++) waiting_writes_.add(from + i);
      enqueue(Dir::write, attribution, from, bursts, handle);
    });
    acknowledge(p);
  }

  void accept_read(const Attribution &attribution, const Packet &p, std::uint64_t first,
                   std::uint64_t last) {
    const std::uint16_t handle = acquire();
    const unsigned forwarded = each_run(first, last, [&](std::uint64_t from, unsigned bursts) {
      enqueue(Dir::read, attribution, from, bursts, handle);
    });
    stats_.forwarded += forwarded;
    const unsigned left = static_cast<unsigned>(last - first + 1) - forwarded;
    if (left == 0) {
      release(handle);
      acknowledge(p);
      return;
    }
    Slot &slot = slots_[handle];
    slot.cookie = p.cookie;
    slot.accepted = now_;
    slot.port = p.port;
    slot.left = left;
  }

  /// Answers a packet that waits for no read.
  void acknowledge(const Packet &p) {
    acks_.push(now_ + timing().frontend, {p.cookie, p.port, p.dir, now_, 0});
  }

  /// Calls f with each run of bursts that have one place and do not wait in the write queue: the
  /// first and their number. Returns how many wait there.
  template <class F>
  unsigned each_run(std::uint64_t first, std::uint64_t last, F f) {
    unsigned waiting = 0;
    for (std::uint64_t b = first; b <= last;) {
      if (waiting_writes_.holds(b)) {
        waiting++;
        b++;
        continue;
      }
      unsigned bursts = 1;
      while (b + bursts <= last && decoder_.same_place_as_previous(b + bursts) &&
             !waiting_writes_.holds(b + bursts))
        bursts++;
      f(b, bursts);
      b += bursts;
    }
    return waiting;
  }

  void enqueue(Dir d, const Attribution &attribution, std::uint64_t burst, unsigned bursts,
               std::uint16_t handle) {
    channel_.enqueue(d, attribution, now_, decoder_.decode(burst), handle, bursts);
  }

  void wake(Ps at) {
    if (decide_at_ != kNever && !batching_) return;
    decide_at_ = std::max(at, channel_.next_request());
    batching_ = false;
  }

  /// Writes that wait for others are served by their age, if nothing else arrives.
  void await_overdue() {
    if (controller().overdue_at() <= now_) return;
    decide_at_ = controller().overdue_at();
    batching_ = true;
  }

  /// Chooses the data bus's next burst and serves it.
  void decide() {
    decide_at_ = kNever;
    batching_ = false;
    channel_.refresh(now_);
    if (!channel_.waiting()) return;
    if (!channel_.choose(now_, drain_)) {
      decide_at_ = channel_.dram().available_at();
      if (decide_at_ == kNever) await_overdue();
      return;
    }
    served(channel_.serve(now_));
    if (channel_.waiting()) wake(now_);
  }

  void served(const Channel::Served &s) {
    const Dir d = channel_.choice().dir;
    const std::uint16_t handle = s.left->handle;
    stats_.turnarounds += s.turned;
    stats_.bursts[index(d)]++;
    stats_.row_hits[index(d)] += s.burst.row_hit;
    stats_.aged += channel_.choice().aged;
    pinned(&stats_.wait[index(d)])->add(s.burst.column - s.left->arrival);
    if (observer_ != nullptr) tell(*s.left, s.burst.column, s.burst.data_end, s.burst.row_hit);
    Slot &slot = *pinned(&slots_[handle]);
    if (d == Dir::write) {
      waiting_writes_.remove(slot.burst++);
      if (s.left->bursts == 0) release(handle);
      offer_room(Dir::write);
      return;
    }
    data_.push(s.burst.data_end, 0);
    if (--slot.left == 0)
      replies_.push(s.burst.data_end + timing().frontend + timing().backend, handle);
  }

  /// The parts of the burst, because a reference to it would keep it in memory.
  [[gnu::noinline]] void tell(Entry was, Ps column, Ps data_end, bool row_hit) {
    was.seq--;
    was.bursts++;
    observer_->issued(now_, was, channel_.choice(), {column, data_end, row_hit});
  }

  std::uint16_t acquire() { return free_[used_++]; }
  void release(std::uint16_t handle) { free_[--used_] = handle; }

  static constexpr unsigned kAcks = 1024;

  Ports ports_;
  AddressDecoder decoder_;
  Channel channel_;
  Stats stats_;
  Listener *listener_ = nullptr;
  Observer *observer_ = nullptr;
  std::uint32_t max_packet_bytes_;
  Ps now_ = 0;
  Ps decide_at_ = kNever;  ///< the decision that is scheduled
  bool batching_ = false;  ///< because of await_overdue(), so what arrives comes before it
  bool drain_ = false;
  bool called_ = false;  ///< the listener, since the last event began
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
