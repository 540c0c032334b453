// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_AGENT_HH
#define DRFQ_GEM5_AGENT_HH

#include "core/state.hh"
#include "mem/port.hh"
#include "model/agent.hh"
#include "params/DrfqAgent.hh"
#include "sim/clocked_object.hh"

namespace gem5 {

/** model/agent.hh at a port: the same packets as the model gets, in gem5's time. */
class DrfqAgent : public ClockedObject {
 public:
  explicit DrfqAgent(const DrfqAgentParams &p);

  /** Sets what the agent sends from now on. */
  void configure(const ::drfq::AgentOptions &options);
  void pause(bool on);
  const ::drfq::Agent::Counters &counters() const { return agent.counters(); }
  void clearCounters() { agent.clear_counters(); }
  /** Nothing is under way, and nothing will be sent. */
  bool idle() const { return !issueEvent.scheduled() && agent.idle(); }

  Port &getPort(const std::string &if_name, PortID idx = InvalidPortID) override;

  /** Sends nothing new. Drained when every packet is done. */
  DrainState drain() override;
  void drainResume() override;
  void serialize(CheckpointOut &cp) const override;
  /** What it reads takes effect at configure(), which restores the options. */
  void unserialize(CheckpointIn &cp) override;

 private:
  class AgentPort : public RequestPort {
   public:
    explicit AgentPort(DrfqAgent &owner_) : RequestPort(owner_.name() + ".port"), owner(owner_) {}

   protected:
    bool recvTimingResp(PacketPtr pkt) override { return owner.receive(pkt); }
    void recvReqRetry() override { owner.send(); }

   private:
    DrfqAgent &owner;
  };

  void schedule();
  void issue();
  /** Offers the pending packet. */
  void send();
  PacketPtr make(const ::drfq::Packet &packet) const;
  bool receive(PacketPtr pkt);

  AgentPort port;
  const RequestorID requestor;
  const std::uint64_t memoryBytes;
  ::drfq::AgentOptions options;
  ::drfq::Agent agent;
  ::drfq::StateWords restored;  // until configure()
  EventFunctionWrapper issueEvent;
};

}  // namespace gem5

#endif
