// SPDX-License-Identifier: GPL-2.0-only
// Agents in closed loops around one memory. Each agent sends its generator's packets with
// a bounded number outstanding. When there is room, refused packets are sent again in the
// order of their refusals, if one of them can be accepted. Behind one port, agents that want to
// send at the same time take turns, as at a crossbar.
#ifndef DRFQ_TRAFFIC_HH
#define DRFQ_TRAFFIC_HH

#include <algorithm>
#include <utility>
#include <vector>

#include "agent.hh"
#include "first_agent.hh"

namespace drfq {

class Traffic final : private Listener {
 public:
  using Counters = Agent::Counters;

  explicit Traffic(const MemoryOptions &o)
      : memory_(o), ports_(o.ports), shares_(memory_.controller().shares()) {
    memory_.listen(this);
  }
  Traffic(const Traffic &) = delete;
  Traffic &operator=(const Traffic &) = delete;

  Memory &memory() { return memory_; }
  const Memory &memory() const { return memory_; }
  Ps now() const { return memory_.now(); }
  const Counters &counters(std::size_t i) const { return agents_[i].counters(); }

  /// Adds an agent; returns its number.
  std::size_t add(const AgentOptions &o) {
    agents_.emplace_back(o, static_cast<std::uint32_t>(agents_.size()));
    first_.add();
    for (Refused &r : refused_) r.waiters.reserve(2 * agents_.size());
    vtimes_.reserve(2 * agents_.size());
    looked_at_ = kNever;
    schedule(agents_.size() - 1);
    return agents_.size() - 1;
  }

  /// Gives an agent other options from now on.
  void replace(std::size_t i, const AgentOptions &o) {
    agents_[i].replace(o, now());
    looked_at_ = kNever;
    schedule(i);
  }

  /// A paused agent sends nothing new; packets that it has sent proceed.
  void pause(std::size_t i, bool on) {
    agents_[i].pause(on);
    schedule(i);
  }

  void clear_stats() {
    memory_.clear_stats();
    for (Agent &a : agents_) a.clear_counters();
  }

  /// When something happens next; kNever when nothing ever does.
  Ps next_event() const { return std::min(memory_.next_event(), first_.next()); }

  /// Runs everything up to and including time to.
  void run_until(Ps to) {
    for (;;) {
      // Memory goes first on a tie, so that an answer can free a line.
      const Ps at = first_.next(), memory_at = memory_.next_event();
      if (memory_at <= at) {
        if (memory_at > to || memory_at == kNever) break;
        memory_.run_next(memory_at, std::min(to, at));
      } else {
        if (at > to) break;
        issue(first_.first(), at);
      }
    }
    memory_.advance(to);
  }

 private:
  /// An agent whose packet was refused, and what is known of the packet.
  struct Waiter {
    std::uint32_t agent;
    std::uint32_t bursts;
    VTime vtime;  ///< the lowest that it can have

    void lower_to(const Waiter &w) {
      bursts = std::min(bursts, w.bursts);
      vtime = std::min(vtime, w.vtime);
    }
  };
  static constexpr Waiter kNone = {0, ~0u, ~VTime{0}};

  /// What a refusal depends on besides the queues. What is known of a packet holds until then.
  struct State {
    std::uint64_t writes = 0;  ///< of the registers that matter
    std::uint64_t epoch = 0;   ///< Controller::epoch()

    bool operator==(const State &o) const { return writes == o.writes && epoch == o.epoch; }
  };

  /// Those of one direction, oldest first.
  struct Refused {
    std::vector<Waiter> waiters;
    std::size_t first = 0;  ///< those before it are gone
    Waiter least = kNone;   ///< the fewest bursts and the lowest virtual time
    State since;            ///< when the first came
  };

  void schedule(std::size_t i) {
    const Ps at = agents_[i].next_issue(now());
    if (at != first_.at(i)) first_.set_at(i, at);
  }

  void issue(std::size_t i, Ps at) {
    agents_[i].issue(at);
    if (!send(i, at)) keep(&refused_by(agents_[i].pending().dir), waiter(i));
    schedule(i);
  }

  bool send(std::size_t i, Ps at) {
    Agent &agent = *pinned(&agents_[i]);
    const bool accepted = memory_.submit(agent.pending(), at) == Admission::accepted;
    if (accepted && ports_ == Ports::single) first_.set_turn(i, ++turns_);
    agent.offered(accepted, at);
    return accepted;
  }

  /// Behind a single port, packets of both directions wait for each other.
  Refused &refused_by(Dir d) { return refused_[ports_ == Ports::single ? 0 : index(d)]; }

  /// The writes of the registers that give a packet its virtual time, and by shares its owner.
  std::uint64_t writes() const {
    const RegisterFile &regs = memory_.controller().registers();
    return regs.vtime_writes() + (shares_ ? regs.pid_writes() : 0);
  }

  State state() const { return {writes(), memory_.controller().epoch()}; }

  /// Whether a refusal changes nothing that a later decision depends on. A packet whose virtual
  /// time no register gives has that of the packets that came lately, refused ones included. By
  /// shares, packets of one owner with two virtual times change its rank in turn.
  bool steady(const State &now) {
    if (looked_at_ != now.writes) {
      looked_at_ = now.writes;
      steady_ = look();
    }
    return steady_;
  }

  bool look() {
    vtimes_.clear();
    for (const Agent &a : agents_)
      for (const Label &label : {a.label(), a.pending().label}) {
        const Attribution by = attribute(memory_.controller().registers(), label, 0);
        if (!by.known && (label.core != Label::kNoCore || label.substream != 0)) return false;
        vtimes_.emplace_back(by.pid, by.vtime);
      }
    if (!shares_) return true;
    std::sort(vtimes_.begin(), vtimes_.end());
    for (std::size_t i = 1; i < vtimes_.size(); i++)
      if (vtimes_[i].first == vtimes_[i - 1].first && vtimes_[i].second != vtimes_[i - 1].second)
        return false;
    return true;
  }

  Waiter waiter(std::size_t i) const {
    const Packet &p = agents_[i].pending();
    return {static_cast<std::uint32_t>(i), memory_.bursts_of(p), memory_.lowest_vtime(p)};
  }

  void keep(Refused *r, const Waiter &w) {
    if (r->first == r->waiters.size()) {
      *r = {std::move(r->waiters), 0, kNone, state()};
      r->waiters.clear();
    } else if (r->waiters.size() == r->waiters.capacity()) {
      r->waiters.erase(r->waiters.begin(), r->waiters.begin() + static_cast<long>(r->first));
      r->first = 0;
    }
    r->waiters.push_back(w);
    r->least.lower_to(w);
  }

  void completed(const Completion &c) override {
    agents_[c.port].completed(c.dir, c.cookie, c.at);
    schedule(c.port);
  }

  void room(Dir d, Ps at) override {
    const State now = state();
    const bool silent = steady(now);
    const Known known = {ports_ == Ports::multi && (silent || !shares_), silent, now};
    retry(d, known, at);
    // A burst that left may have been the head, by which the other queue's reserve goes.
    Refused &others = refused_by(other(d));
    if (ports_ == Ports::multi && !hopeless(other(d), others, known)) retry(other(d), known, at);
  }

  /// What may be told without sending a packet.
  struct Known {
    bool of_others;  ///< which refused packets cannot be accepted
    bool silent;     ///< and such a packet need not be sent; see steady()
    State now;
  };

  /// Whether none of these can be accepted.
  bool hopeless(Dir d, const Refused &r, const Known &known) const {
    return known.of_others && r.since == known.now &&
           memory_.refuses_all(d, r.least.bursts, r.least.vtime);
  }

  /// Sends refused packets again, if one can be accepted: most cannot, and with hundreds of agents
  /// nearly all.
  void retry(Dir d, const Known &all, Ps at) {
    Refused &r = refused_by(d);
    if (r.first == r.waiters.size()) return;
    const bool known = all.of_others && r.since == all.now &&
                       memory_.controller().may_refuse_all(d, r.least.bursts);
    const bool silent = known && all.silent;
    if (silent && memory_.refuses_all(d, r.least.bursts, r.least.vtime))
      return memory_.await_room(d);
    const Waiter before = r.least;
    const auto begin = r.waiters.begin() + static_cast<long>(r.first), end = r.waiters.end();
    auto kept = begin, w = begin;  // kept: the end of those that are refused again
    Waiter least = kNone;          // of those
    Waiter hopeless = kNone;       // one that cannot be accepted now
    bool looked = silent;          // whether it is known that not all are refused
    bool none = false;             // none of the rest can be accepted
    for (; w != end && !none; ++w) {
      if (!known || (kept == begin && !silent) || !cannot(d, *w, &hopeless)) {
        if (send(w->agent, at)) {
          schedule(w->agent);
          hopeless = kNone;
          looked = false;
          continue;
        }
        *w = waiter(w->agent);
      }
      if (known && !looked) none = memory_.refuses_all(d, before.bursts, before.vtime);
      looked = true;
      least.lower_to(*w);
      if (kept != w) *kept = *w;
      ++kept;
    }
    if (none) {
      least.lower_to(before);
      r.first = static_cast<std::size_t>(std::move_backward(begin, kept, w) - r.waiters.begin());
      kept = end;
    }
    r.waiters.erase(kept, end);
    if (silent && r.first != r.waiters.size()) memory_.await_room(d);
    r.least = least;
    r.since = all.now;
  }

  /// Whether a waiter's packet would be refused. hopeless: the last of which this is known since a
  /// packet was accepted; it answers for those of no fewer bursts and no lower a virtual time.
  bool cannot(Dir d, const Waiter &w, Waiter *hopeless) const {
    if (w.bursts >= hopeless->bursts && w.vtime >= hopeless->vtime) return true;
    if (!memory_.refuses_all(d, w.bursts, w.vtime)) return false;
    *hopeless = w;
    return true;
  }

  Memory memory_;
  const Ports ports_;
  const bool shares_;  // admission by shares
  std::vector<Agent> agents_;
  FirstAgent first_;
  std::uint64_t turns_ = 0;
  Refused refused_[2];
  // See steady().
  std::vector<std::pair<Pid, VTime>> vtimes_;  // by owner
  std::uint64_t looked_at_ = kNever;           // writes() then
  bool steady_ = false;
};

}  // namespace drfq

#endif
