// SPDX-License-Identifier: GPL-2.0-only
// One agent in a closed loop. It sends its generator's packets, with a bounded number
// outstanding. It keeps a refused packet until the packet is admitted. It has no clock
// and no memory; its driver (traffic.hh, or a simulator) has both.
#ifndef DRFQ_AGENT_HH
#define DRFQ_AGENT_HH

#include <algorithm>
#include <stdexcept>

#include "generator.hh"
#include "memory.hh"

namespace drfq {

class Agent {
 public:
  struct Counters {
    std::uint64_t bytes[2] = {0, 0};  ///< accepted, by direction
    Histogram latency;                ///< reads: from the first try to the data
    std::uint64_t bytes_total() const { return bytes[0] + bytes[1]; }

    template <class Self, class F>
    static void parts(Self &self, F &f) {
      f(self.bytes, self.latency);
    }
  };

  /// number: its port, in its packets.
  Agent(const AgentOptions &o, std::uint32_t number) : generator_(o), number_(number) {
    replace(o, o.start);
  }

  const Counters &counters() const { return counters_; }
  void clear_counters() { counters_ = Counters(); }

  /// Other options from now on.
  void replace(const AgentOptions &o, Ps now) {
    options_ = o;
    options_.outstanding_lines = std::max(1u, o.outstanding_lines);
    generator_ = Generator(o);
    next_allowed_ = now;
  }

  /// A paused agent sends nothing new; packets that it has sent proceed.
  void pause(bool on) { paused_ = on; }

  /// When the agent sends its next packet; kNever while it may send none.
  Ps next_issue(Ps now) const {
    if (waiting_ || paused_ || outstanding_ >= options_.outstanding_lines) return kNever;
    return generator_.active_from(std::max(now, next_allowed_));
  }

  /// Makes the next packet, which is then pending. The cookie is the time of the first try.
  const Packet &issue(Ps at) {
    const Generator::Access access = generator_.next();
    pending_.address = access.address;
    pending_.bytes = kLineBytes;
    pending_.dir = access.dir;
    pending_.label = options_.label;
    pending_.port = number_;
    pending_.cookie = at;
    pause_after_ = access.pause_after;
    return pending_;
  }

  const Packet &pending() const { return pending_; }
  /// Of the packets that it makes from now on.
  const Label &label() const { return options_.label; }

  /// Records whether the pending packet, offered at a time, was accepted.
  void offered(bool accepted, Ps at) {
    waiting_ = !accepted;
    if (waiting_) return;
    outstanding_++;
    counters_.bytes[index(pending_.dir)] += pending_.bytes;
    Ps gap = options_.gap;
    if (options_.bytes_per_s != 0)
      gap = std::max(gap, kLineBytes * Ps{1000000000000} / options_.bytes_per_s);
    // The rate holds on average: the agent makes up for time lost to refusals within one period.
    const Ps from = options_.bytes_per_s != 0 && next_allowed_ + gap > at ? next_allowed_ : at;
    next_allowed_ = from + gap + pause_after_;
  }

  void completed(Dir dir, Ps first_try, Ps at) {
    outstanding_--;
    if (dir == Dir::read) counters_.latency.add(at - first_try);
  }

  /// Whether every packet that it made was accepted and is done.
  bool idle() const { return !waiting_ && outstanding_ == 0; }

  /// The state while it is idle (core/state.hh); std::logic_error while it is not.
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    if (!self.idle()) throw std::logic_error("an agent's state has no packet, so it must be idle");
    f(self.generator_, self.counters_, self.paused_, self.next_allowed_);
  }

 private:
  AgentOptions options_;
  Generator generator_;
  Counters counters_;
  unsigned outstanding_ = 0;
  bool waiting_ = false;  // pending_ was refused
  bool paused_ = false;
  Packet pending_;
  Ps pause_after_ = 0;
  Ps next_allowed_ = 0;
  std::uint32_t number_;
};

}  // namespace drfq

#endif
