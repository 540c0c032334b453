// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/agent.hh"

#include "gem5/checkpoint.hh"
#include "mem/packet.hh"
#include "mem/request.hh"
#include "sim/system.hh"

namespace gem5 {

namespace {

/** When a packet was first tried. */
struct FirstTry : public Packet::SenderState {
  explicit FirstTry(Tick at_) : at(at_) {}
  const Tick at;
};

/** The options of an agent before configure(). */
::drfq::AgentOptions silent() {
  ::drfq::AgentOptions o;
  o.enabled = false;
  return o;
}

}  // namespace

DrfqAgent::DrfqAgent(const DrfqAgentParams &p)
    : ClockedObject(p),
      port(*this),
      requestor(p.system->getRequestorId(this)),
      memoryBytes(p.memory_bytes),
      options(silent()),
      agent(options, 0),
      issueEvent([this] { issue(); }, name()) {}

Port &DrfqAgent::getPort(const std::string &if_name, PortID idx) {
  return if_name == "port" ? port : ClockedObject::getPort(if_name, idx);
}

void DrfqAgent::configure(const ::drfq::AgentOptions &o) {
  options = o;
  agent.replace(o, std::max<Tick>(curTick(), o.start));
  if (!restored.empty()) drfqLoad(&agent, restored, name());
  restored.clear();
  schedule();
}

void DrfqAgent::pause(bool on) {
  agent.pause(on);
  schedule();
}

void DrfqAgent::schedule() {
  const bool running = drainState() == DrainState::Running;
  const ::drfq::Ps at = running ? agent.next_issue(curTick()) : ::drfq::kNever;
  if (issueEvent.scheduled()) deschedule(issueEvent);
  if (at != ::drfq::kNever) EventManager::schedule(issueEvent, at);
}

void DrfqAgent::issue() {
  agent.issue(curTick());
  send();
}

PacketPtr DrfqAgent::make(const ::drfq::Packet &p) const {
  auto req = std::make_shared<Request>(p.address % memoryBytes, p.bytes, 0, requestor);
  // A prefetcher needs a program counter: one for each array and direction.
  const Addr pc = 0x1000 + 8 * (p.address / options.array_bytes) + ::drfq::index(p.dir);
  req->setPC(pc);
  if (p.label.substream != 0) {
    req->setStreamId(0);
    req->setSubstreamId(p.label.substream);
  } else if (p.label.core != ::drfq::Label::kNoCore) {
    req->setContext(p.label.core);
  }
  const bool read = p.dir == ::drfq::Dir::read;
  auto *pkt = new Packet(req, read ? MemCmd::ReadReq : MemCmd::WriteReq);
  pkt->allocate();
  if (!read) std::fill_n(pkt->getPtr<std::uint8_t>(), p.bytes, 0);
  pkt->pushSenderState(new FirstTry(p.cookie));
  return pkt;
}

void DrfqAgent::send() {
  PacketPtr pkt = make(agent.pending());
  const bool accepted = port.sendTimingReq(pkt);
  if (!accepted) {
    delete pkt->popSenderState();
    delete pkt;
  }
  agent.offered(accepted, curTick());
  schedule();
}

bool DrfqAgent::receive(PacketPtr pkt) {
  auto *first_try = dynamic_cast<FirstTry *>(pkt->popSenderState());
  panic_if(first_try == nullptr, "%s: a response to a request that this agent has not sent",
           name());
  const ::drfq::Dir dir = pkt->isRead() ? ::drfq::Dir::read : ::drfq::Dir::write;
  agent.completed(dir, first_try->at, curTick());
  delete first_try;
  delete pkt;
  schedule();
  if (drainState() == DrainState::Draining && agent.idle()) signalDrainDone();
  return true;
}

DrainState DrfqAgent::drain() {
  schedule();
  return agent.idle() ? DrainState::Drained : DrainState::Draining;
}

void DrfqAgent::drainResume() { schedule(); }

void DrfqAgent::serialize(CheckpointOut &cp) const {
  ClockedObject::serialize(cp);
  drfqOut(cp, "agent", ::drfq::save_state(agent));
}

void DrfqAgent::unserialize(CheckpointIn &cp) {
  ClockedObject::unserialize(cp);
  restored = drfqIn(cp, "agent");
}

}  // namespace gem5
