// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_HOST_HH
#define DRFQ_GEM5_HOST_HH

#include <memory>
#include <string>
#include <vector>

#include "host/host.hh"
#include "gem5/agent.hh"
#include "gem5/mem_ctrl.hh"
#include "params/DrfqHost.hh"
#include "sim/sim_object.hh"

namespace gem5 {

/**
 * host/host.hh in gem5: the experiments and the server of drfq-mc run on it as
 * on the model. Both block their caller, the config script, until they are done.
 */
class DrfqHost : public SimObject, private ::drfq::Host {
 public:
  explicit DrfqHost(const DrfqHostParams &p);
  ~DrfqHost() override;

  /**
   * Runs one combination of an experiment file from its start, or from the checkpoint that gem5
   * restored. Ends with "" at the first update of the registers from until_ns on; 0: never. Else
   * the lines "figure NAME VALUE", or one line "error: REASON".
   */
  std::string experiment(const std::string &file, unsigned point, std::uint64_t seed,
                         double until_ns);

  /** Goes on to the end after experiment() has returned "". */
  std::string proceed();

  void serialize(CheckpointOut &cp) const override;
  void unserialize(CheckpointIn &cp) override;

  /** Serves until a signal; "" or "error: REASON". rate: 0: lock-step, else free-running. */
  std::string serve(const std::string &socket, double rate);

 private:
  ::drfq::RegisterFile &registers() override;
  const ::drfq::Stats &stats() const override;
  ::drfq::Policy policy() const override;
  ::drfq::Ps now() const override;
  ::drfq::Ps next_event() const override;
  void run_until(::drfq::Ps to) override;
  void clear_stats() override;
  std::size_t agents_max() const override { return agents.size(); }
  std::size_t add(const ::drfq::AgentOptions &o) override;
  void replace(std::size_t i, const ::drfq::AgentOptions &o) override;
  void pause(std::size_t i, bool on) override;
  const ::drfq::Traffic::Counters &counters(std::size_t i) const override;

  struct Running;

  std::string advance(double until_ns);

  /** Its registers are those that experiments and clients use. */
  memory::DrfqMemCtrl &first() const { return *channels[0]; }

  const std::vector<memory::DrfqMemCtrl *> channels;
  mutable ::drfq::Stats sum;  // of several channels
  std::vector<DrfqAgent *> agents;
  std::size_t used = 0;
  std::unique_ptr<Running> running;
  ::drfq::StateWords restored;  // of the run
  std::uint64_t restoredIdentity = 0;
};

}  // namespace gem5

#endif
