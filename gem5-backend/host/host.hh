// SPDX-License-Identifier: GPL-2.0-only
// A host runs packets for a server or an experiment. It is the model, or a simulator that
// embeds the core.
#ifndef DRFQ_HOST_HH
#define DRFQ_HOST_HH

#include "model/traffic.hh"

namespace drfq {

class Host {
 public:
  virtual ~Host() = default;
  virtual RegisterFile &registers() = 0;
  virtual const Stats &stats() const = 0;
  virtual Policy policy() const = 0;
  virtual Ps now() const = 0;
  /// Time of the next event; kNever: none is to come.
  virtual Ps next_event() const = 0;
  /// Runs everything up to and including a time.
  virtual void run_until(Ps to) = 0;
  virtual void clear_stats() = 0;
  /// The most agents that add() takes.
  virtual std::size_t agents_max() const = 0;
  /// Adds an agent; returns its number.
  virtual std::size_t add(const AgentOptions &) = 0;
  /// Gives an agent other options from now on.
  virtual void replace(std::size_t, const AgentOptions &) = 0;
  /// A paused agent sends nothing new; packets that it has sent proceed.
  virtual void pause(std::size_t, bool on) = 0;
  virtual const Traffic::Counters &counters(std::size_t) const = 0;
};

/// The model as a host.
class ModelHost final : public Host {
 public:
  explicit ModelHost(const MemoryOptions &o) : traffic_(o), policy_(o.controller.policy) {}

  Memory &memory() { return traffic_.memory(); }
  RegisterFile &registers() override { return traffic_.memory().controller().registers(); }
  const Stats &stats() const override { return traffic_.memory().stats(); }
  Policy policy() const override { return policy_; }
  Ps now() const override { return traffic_.now(); }
  Ps next_event() const override { return traffic_.next_event(); }
  void run_until(Ps to) override { traffic_.run_until(to); }
  void clear_stats() override { traffic_.clear_stats(); }
  std::size_t agents_max() const override { return 256; }
  std::size_t add(const AgentOptions &o) override { return traffic_.add(o); }
  void replace(std::size_t i, const AgentOptions &o) override { traffic_.replace(i, o); }
  void pause(std::size_t i, bool on) override { traffic_.pause(i, on); }
  const Traffic::Counters &counters(std::size_t i) const override { return traffic_.counters(i); }

 private:
  Traffic traffic_;
  Policy policy_;
};

}  // namespace drfq

#endif
