// SPDX-License-Identifier: GPL-2.0-only
// Agents in closed loops around one memory: each sends its generator's packets
// with a bounded number outstanding, and sends a refused one again when there
// is room, in the order in which they were refused.
#ifndef DRFQ_TRAFFIC_HH
#define DRFQ_TRAFFIC_HH

#include <algorithm>
#include <vector>

#include "generator.hh"
#include "memory.hh"

namespace drfq {

class Traffic final : private Listener {
 public:
  struct Counters {
    std::uint64_t bytes[2] = {0, 0};  ///< accepted, by direction
    Histogram latency;                ///< reads: from the first try to the data
    std::uint64_t bytes_total() const { return bytes[0] + bytes[1]; }
  };

  explicit Traffic(const MemoryOptions &o) : memory_(o) { memory_.listen(this); }
  Traffic(const Traffic &) = delete;
  Traffic &operator=(const Traffic &) = delete;

  Memory &memory() { return memory_; }
  const Memory &memory() const { return memory_; }
  Ps now() const { return memory_.now(); }
  std::size_t agents() const { return agents_.size(); }
  const Counters &counters(std::size_t i) const { return agents_[i].counters; }

  /// Adds an agent; returns its number.
  std::size_t add(const AgentOptions &o) {
    agents_.emplace_back(o);
    waiting_.reserve(agents_.size());
    retry_.reserve(agents_.size());
    schedule(agents_.size() - 1);
    return agents_.size() - 1;
  }

  /// Gives an agent other options from now on.
  void replace(std::size_t i, const AgentOptions &o) {
    Agent &a = agents_[i];
    a.options = o;
    a.generator = Generator(o);
    a.next_allowed = now();
    schedule(i);
  }

  /// While paused an agent sends nothing new; what it sent goes on.
  void pause(std::size_t i, bool on) {
    agents_[i].paused = on;
    schedule(i);
  }

  void clear_stats() {
    memory_.clear_stats();
    for (Agent &a : agents_) a.counters = Counters();
  }

  /// When something happens next; kNever when nothing ever does.
  Ps next_event() const {
    Ps t = memory_.next_event();
    for (const Agent &a : agents_) t = std::min(t, a.issue_at);
    return t;
  }

  /// Runs everything up to and including time to.
  void run_until(Ps to) {
    for (;;) {
      std::size_t first = 0;
      Ps at = kNever;
      for (std::size_t i = 0; i < agents_.size(); i++)
        if (agents_[i].issue_at < at) {
          at = agents_[i].issue_at;
          first = i;
        }
      // Memory goes first on a tie, so that an answer can free a line.
      const Ps memory_at = memory_.next_event();
      if (std::min(at, memory_at) > to || std::min(at, memory_at) == kNever) break;
      if (memory_at <= at)
        memory_.advance(memory_at);
      else
        issue(first, at);
    }
    memory_.advance(to);
  }

 private:
  struct Agent {
    explicit Agent(const AgentOptions &o) : options(o), generator(o), next_allowed(o.start) {}
    AgentOptions options;
    Generator generator;
    Counters counters;
    unsigned outstanding = 0;
    bool waiting = false;  ///< pending was refused
    bool paused = false;
    Packet pending;
    Ps pause_after = 0;
    Ps first_try = 0;
    Ps next_allowed = 0;
    Ps issue_at = kNever;
  };

  void schedule(std::size_t i) {
    Agent &a = agents_[i];
    a.issue_at = kNever;
    if (a.waiting || a.paused || a.outstanding >= std::max(1u, a.options.lines)) return;
    a.issue_at = a.generator.active_from(std::max(now(), a.next_allowed));
  }

  void issue(std::size_t i, Ps at) {
    Agent &a = agents_[i];
    const Generator::Access access = a.generator.next();
    a.pending.address = access.address;
    a.pending.bytes = kLineBytes;
    a.pending.dir = access.dir;
    a.pending.label = a.options.label;
    a.pending.port = static_cast<std::uint32_t>(i);
    // The cookie carries the time of the first try.
    a.pending.cookie = at;
    a.pause_after = access.pause_after;
    a.waiting = !send(i, at);
    if (a.waiting) waiting_.push_back(i);
    schedule(i);
  }

  bool send(std::size_t i, Ps at) {
    Agent &a = agents_[i];
    if (memory_.submit(a.pending, at) != Admission::accepted) return false;
    a.outstanding++;
    a.counters.bytes[index(a.pending.dir)] += a.pending.bytes;
    Ps gap = a.options.gap;
    if (a.options.bytes_per_s != 0)
      gap = std::max(gap, kLineBytes * Ps{1000000000000} / a.options.bytes_per_s);
    // A rate is kept on average: time lost to refusals within one period is made up.
    const Ps from = a.options.bytes_per_s != 0 && a.next_allowed + gap > at ? a.next_allowed : at;
    a.next_allowed = from + gap + a.pause_after;
    return true;
  }

  void completed(const Completion &c) override {
    Agent &a = agents_[c.port];
    a.outstanding--;
    if (c.dir == Dir::read) a.counters.latency.add(c.at - c.cookie);
    schedule(c.port);
  }

  void room(Dir, Ps at) override {
    retry_.swap(waiting_);
    waiting_.clear();
    for (std::size_t i : retry_) {
      if (!send(i, at)) {
        waiting_.push_back(i);
        continue;
      }
      agents_[i].waiting = false;
      schedule(i);
    }
    retry_.clear();
  }

  Memory memory_;
  std::vector<Agent> agents_;
  std::vector<std::size_t> waiting_;  // refused, oldest first
  std::vector<std::size_t> retry_;
};

}  // namespace drfq

#endif
