// SPDX-License-Identifier: GPL-2.0-only
// Agents in closed loops around one memory. Each agent sends its generator's packets with
// a bounded number outstanding. When there is room, refused packets are sent again in the
// order of their refusals. Behind one port, agents that want to send at the same time take
// turns, as at a crossbar.
#ifndef DRFQ_TRAFFIC_HH
#define DRFQ_TRAFFIC_HH

#include <algorithm>
#include <vector>

#include "agent.hh"

namespace drfq {

class Traffic final : private Listener {
 public:
  using Counters = Agent::Counters;

  explicit Traffic(const MemoryOptions &o) : memory_(o), ports_(o.ports) { memory_.listen(this); }
  Traffic(const Traffic &) = delete;
  Traffic &operator=(const Traffic &) = delete;

  Memory &memory() { return memory_; }
  const Memory &memory() const { return memory_; }
  Ps now() const { return memory_.now(); }
  std::size_t agents() const { return agents_.size(); }
  const Counters &counters(std::size_t i) const { return agents_[i].counters(); }

  /// Adds an agent; returns its number.
  std::size_t add(const AgentOptions &o) {
    agents_.emplace_back(o, static_cast<std::uint32_t>(agents_.size()));
    issue_at_.resize(agents_.size(), kNever);
    sent_.resize(agents_.size(), 0);
    waiting_.reserve(agents_.size());
    retry_.reserve(agents_.size());
    schedule(agents_.size() - 1);
    return agents_.size() - 1;
  }

  /// Gives an agent other options from now on.
  void replace(std::size_t i, const AgentOptions &o) {
    agents_[i].replace(o, now());
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
  Ps next_event() const { return std::min(memory_.next_event(), issue_at_[first_]); }

  /// Runs everything up to and including time to.
  void run_until(Ps to) {
    for (;;) {
      // Memory goes first on a tie, so that an answer can free a line.
      const Ps at = issue_at_[first_], memory_at = memory_.next_event();
      if (std::min(at, memory_at) > to || std::min(at, memory_at) == kNever) break;
      if (memory_at <= at)
        memory_.run_next();
      else
        issue(first_, at);
    }
    memory_.advance(to);
  }

 private:
  void schedule(std::size_t i) {
    const Ps at = agents_[i].next_issue(now());
    if (at == issue_at_[i]) return;
    issue_at_[i] = at;
    find_first();
  }

  void find_first() {
    first_ = 0;
    for (std::size_t k = 1; k < issue_at_.size(); k++)
      if (issue_at_[k] < issue_at_[first_] ||
          (issue_at_[k] == issue_at_[first_] && sent_[k] < sent_[first_]))
        first_ = k;
  }

  void issue(std::size_t i, Ps at) {
    agents_[i].issue(at);
    if (!send(i, at)) waiting_.push_back(i);
    schedule(i);
  }

  bool send(std::size_t i, Ps at) {
    const bool accepted = memory_.submit(agents_[i].pending(), at) == Admission::accepted;
    if (accepted && ports_ == Ports::single) {
      sent_[i] = ++turns_;
      find_first();
    }
    agents_[i].offered(accepted, at);
    return accepted;
  }

  void completed(const Completion &c) override {
    agents_[c.port].completed(c.dir, c.cookie, c.at);
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
      schedule(i);
    }
    retry_.clear();
  }

  Memory memory_;
  const Ports ports_;
  std::vector<Agent> agents_;
  std::vector<Ps> issue_at_ = {kNever};    // by agent; never empty
  std::vector<std::uint64_t> sent_ = {0};  // by agent: the turn it took last
  std::uint64_t turns_ = 0;
  std::size_t first_ = 0;             // agent with the earliest issue_at_
  std::vector<std::size_t> waiting_;  // refused, oldest first
  std::vector<std::size_t> retry_;
};

}  // namespace drfq

#endif
