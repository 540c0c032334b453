// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/mem_ctrl.hh"

#include <algorithm>

#include "gem5/checkpoint.hh"
#include "mem/packet_queue.hh"
#include "sim/core.hh"

namespace gem5 {

namespace memory {

namespace {

using ::drfq::Dir;

// The open rows are a private member of gem5's DRAM and there is no accessor.
// An explicit instantiation may name a private member, and a friend may return it.
struct Ranks {
  friend auto exposed(Ranks);
};

template <auto Member>
struct Expose {
  friend auto exposed(Ranks) { return Member; }
};

template struct Expose<&DRAMInterface::ranks>;

/** The port through which a packet came. */
struct Route : public Packet::SenderState {
  explicit Route(PortID from_) : from(from_) {}
  const PortID from;
};

const DRAMInterfaceParams &dramParams(const DRAMInterface *dram) {
  return dynamic_cast<const DRAMInterfaceParams &>(dram->params());
}

DRAMInterface *dramOf(const DrfqMemCtrlParams &p) {
  auto *dram = dynamic_cast<DRAMInterface *>(p.dram);
  fatal_if(dram == nullptr, "%s: dram must be a DRAMInterface", p.name);
  const DRAMInterfaceParams &d = dramParams(dram);
  fatal_if(d.ranks_per_channel * d.banks_per_rank > ::drfq::kBanksMax, "%s: at most %d banks",
           p.name, ::drfq::kBanksMax);
  fatal_if(std::max(d.read_buffer_size, d.write_buffer_size) > ::drfq::Queue::kMax,
           "%s: queues of at most %d entries", p.name, ::drfq::Queue::kMax);
  return dram;
}

::drfq::ControllerOptions optionsOf(const DrfqMemCtrlParams &p) {
  ::drfq::ControllerOptions o;
  o.policy = p.frfcfs ? ::drfq::Policy::frfcfs : ::drfq::Policy::lvtf;
  o.cores = p.cores;
  o.read_entries = p.dram->readBufferSize;
  o.write_entries = p.dram->writeBufferSize;
  o.admission = p.share ? ::drfq::AdmissionRule::share : ::drfq::AdmissionRule::thesis;
  o.runs = {p.tie_bursts, p.run_bursts};
  o.prepare = p.prepare;
  o.batch = p.batch;
  o.aging = p.aging;
  o.drain.high_percent = p.write_high_thresh_perc;
  o.drain.low_percent = p.write_low_thresh_perc;
  o.drain.min_writes = p.min_writes_per_switch;
  o.drain.min_reads = p.min_reads_per_switch;
  return o;
}

}  // namespace

struct DrfqMemCtrl::View : public ::drfq::PlainView<View> {
  const DrfqMemCtrl &ctrl;
  const std::uint16_t banksPerRank;

  explicit View(const DrfqMemCtrl &c)
      : ctrl(c), banksPerRank(dramParams(c.device).banks_per_rank) {}

  const auto &bank(unsigned flat) const {
    const auto &ranks = ctrl.device->*exposed(Ranks{});
    return ranks[flat / banksPerRank]->banks[flat % banksPerRank];
  }

  bool ready(const ::drfq::Entry &e) const {
    return ctrl.device->burstReady(ctrl.packets[e.handle]);
  }

  bool row_hit(const ::drfq::Entry &e) const { return bank(e.bank).openRow == e.row; }

  ::drfq::Ps column_at(unsigned flat, Dir d) const {
    return d == Dir::read ? bank(flat).rdAllowedAt : bank(flat).wrAllowedAt;
  }

  ::drfq::Ps column_at(const ::drfq::Entry &e, Dir d) const { return column_at(e.bank, d); }

  ::drfq::Ps activate_at(unsigned flat) const {
    const auto &b = bank(flat);
    const Tick now = curTick();
    return b.openRow == std::decay_t<decltype(b)>::NO_ROW
               ? std::max(b.actAllowedAt, now)
               : std::max(b.preAllowedAt, now) + ctrl.precharge;
  }

  ::drfq::Ps activate_at(const ::drfq::Entry &e) const { return activate_at(e.bank); }
  ::drfq::Ps row_to_column() const { return ctrl.rowToColumn; }
};

DrfqMemCtrl::AgentPort::AgentPort(DrfqMemCtrl &ctrl_, PortID number_)
    : QueuedResponsePort(csprintf("%s.agents[%d]", ctrl_.name(), number_ - 1), responses),
      ctrl(ctrl_),
      responses(ctrl_, *this, true),
      number(number_) {}

DrfqMemCtrl::DrfqMemCtrl(const DrfqMemCtrlParams &p)
    : MemCtrl(p),
      baseline(p.frfcfs),
      device(dramOf(p)),
      precharge(dramParams(device).tRP),
      rowToColumn(dramParams(device).tRCD),
      senders(p.system, p.device_owners),
      core(optionsOf(p)),
      overdueEvent([this] { decideAgain(); }, name()) {
  fatal_if(p.qos_priorities != 1 || p.qos_policy != nullptr || p.qos_turnaround_policy != nullptr,
           "%s: virtual times decide, so gem5's QoS priorities and policies must not be set",
           p.name);
  for (unsigned i = 0; i < 2 * ::drfq::Queue::kMax; i++) freeHandles.push_back(i);
  packets.resize(freeHandles.size());
  for (PortID i = 0; i < p.port_agents_connection_count; i++)
    agents.push_back(std::make_unique<AgentPort>(*this, i + 1));
  if (p.decision_log.empty()) return;
  logFile.open(p.decision_log);
  fatal_if(!logFile, "%s: cannot write %s", p.name, p.decision_log);
  const DRAMInterfaceParams &d = dramParams(device);
  log = std::make_unique<::drfq::DecisionWriter>(logFile, "gem5 " + p.version, core.options(),
                                                 d.ranks_per_channel * d.banks_per_rank,
                                                 rowToColumn, p.decisions);
  // gem5 exits without calling its objects' destructors.
  registerExitCallback([this] { logFile.close(); });
}

Port &DrfqMemCtrl::getPort(const std::string &if_name, PortID idx) {
  if (if_name != "agents") return MemCtrl::getPort(if_name, idx);
  return *agents.at(idx);
}

void DrfqMemCtrl::init() {
  fatal_if(!port.isConnected() && agents.empty(), "%s: nothing is connected", name());
  if (port.isConnected()) port.sendRangeChange();
  for (const auto &a : agents) a->sendRangeChange();
}

bool DrfqMemCtrl::busy() const {
  return !core.queue(Dir::read).empty() || !core.queue(Dir::write).empty() || !respQueue.empty();
}

::drfq::Access DrfqMemCtrl::readRegister(Addr offset, std::uint64_t *value) {
  return core.registers().read(offset, value);
}

::drfq::Access DrfqMemCtrl::writeRegister(Addr offset, std::uint64_t value) {
  const ::drfq::Access access = core.registers().write(offset, value);
  if (access == ::drfq::Access::ok) wroteRegister(offset, value);
  return access;
}

void DrfqMemCtrl::wroteRegister(Addr offset, std::uint64_t value) {
  if (log) log->wrote(curTick(), offset, value);
}

ResponsePort &DrfqMemCtrl::portOf(PortID number) {
  if (number == 0) return port;
  return *agents[number - 1];
}

bool DrfqMemCtrl::recvTimingReq(PacketPtr pkt) { return receive(pkt, 0); }

bool DrfqMemCtrl::receive(PacketPtr pkt, PortID from) {
  ::drfq::Arrival a;
  a.label = senders.stamp(pkt->req);
  a.dir = pkt->isWrite() ? Dir::write : Dir::read;
  a.bytes = pkt->getSize();
  const unsigned burst = dram->bytesPerBurst();
  a.bursts = divCeil((pkt->getAddr() & (burst - 1)) + a.bytes, burst);
  a.in_flight = respQueue.size();
  const ::drfq::Verdict v = core.arrive(a);
  if (log) log->arrived(curTick(), a, v);
  if (v.admission != ::drfq::Admission::accepted) {
    record.refused[::drfq::index(a.dir)][static_cast<unsigned>(v.admission)]++;
    refused[::drfq::index(a.dir)] = true;
    if (overdueEvent.scheduled() && a.dir == Dir::write) decideAgain();  // it ends a batch
    waiting.push_back(from);
    return false;
  }
  record.packets[::drfq::index(a.dir)]++;
  record.bytes[::drfq::index(a.dir)][v.attribution.pid] += a.bytes;
  pkt->pushSenderState(new Route(from));
  const std::size_t reads = readQueue[0].size(), writes = writeQueue[0].size();
  // gem5 may answer and delete the packet in here.
  const bool taken = MemCtrl::recvTimingReq(pkt);
  panic_if(!taken, "%s: gem5 refused what the core admitted", name());
  mirror(readQueue[0], reads, Dir::read, v.attribution);
  mirror(writeQueue[0], writes, Dir::write, v.attribution);
  const std::size_t queued = readQueue[0].size() - reads + writeQueue[0].size() - writes;
  (a.dir == Dir::read ? record.forwarded : record.merged) += a.bursts - queued;
  return true;
}

void DrfqMemCtrl::mirror(const MemPacketQueue &queue, std::size_t from, Dir dir,
                         const ::drfq::Attribution &attribution) {
  for (std::size_t i = from; i < queue.size(); i++) {
    MemPacket *p = queue[i];
    const std::uint16_t handle = freeHandles.back();
    freeHandles.pop_back();
    packets[handle] = p;
    handles[p] = handle;
    core.enqueue(dir, attribution, curTick(), p->bankId, p->row, handle);
    if (log) log->queued(p->bankId, p->row);
  }
}

void DrfqMemCtrl::processNextReqEvent(MemInterface *mem_intr, MemPacketQueue &resp_queue,
                                      EventFunctionWrapper &resp_event,
                                      EventFunctionWrapper &next_req_event, bool &retry_wr_req) {
  const auto state = [](Dir d) { return d == Dir::read ? MemCtrl::READ : MemCtrl::WRITE; };
  servedWrite = false;
  if (!baseline) {
    const ::drfq::Ps turnaround[2] = {minWriteToReadDataGap(), minReadToWriteDataGap()};
    const bool draining = drainState() == DrainState::Draining;
    choice = core.choose(View(*this), curTick(), mem_intr->nextBurstAt, turnaround, draining);
    mem_intr->busStateNext = state(choice.dir);
  }
  MemCtrl::processNextReqEvent(mem_intr, resp_queue, resp_event, next_req_event, retry_wr_req);
  // gem5 has set the next direction by its own rule; its power-down logic looks at it.
  if (!baseline) mem_intr->busStateNext = state(core.choose_direction());
  if (!baseline && !choice.found) awaitOverdue();
  if (servedWrite) offerRoom(Dir::write);
}

void DrfqMemCtrl::decideAgain() {
  if (!nextReqEvent.scheduled()) schedule(nextReqEvent, curTick());
}

void DrfqMemCtrl::awaitOverdue() {
  const Tick at = core.overdue_at();
  if (core.queue(Dir::write).empty() || at == ::drfq::kNever || at <= curTick()) return;
  reschedule(overdueEvent, at, true);
}

void DrfqMemCtrl::processRespondEvent(MemInterface *mem_intr, MemPacketQueue &queue,
                                      EventFunctionWrapper &resp_event, bool &retry_rd_req) {
  MemCtrl::processRespondEvent(mem_intr, queue, resp_event, retry_rd_req);
  offerRoom(Dir::read);
}

MemPacketQueue::iterator DrfqMemCtrl::chooseNext(MemPacketQueue &queue, Tick extra_col_delay,
                                                 MemInterface *mem_intr) {
  if (baseline) return MemCtrl::chooseNext(queue, extra_col_delay, mem_intr);
  if (!choice.found) return queue.end();
  const MemPacket *chosen = packets[core.queue(choice.dir).at(choice.place).handle];
  return std::find(queue.begin(), queue.end(), chosen);
}

unsigned DrfqMemCtrl::placeOf(const MemPacket *mem_pkt, Dir dir) const {
  const std::uint16_t handle = handles.at(mem_pkt);
  const ::drfq::Queue &q = core.queue(dir);
  unsigned place = 0;
  while (q.at(place).handle != handle) place++;
  return place;
}

::drfq::BankState DrfqMemCtrl::bankState(const View &view) const {
  const DRAMInterfaceParams &d = dramParams(device);
  ::drfq::BankState s;
  for (unsigned b = 0; b < d.ranks_per_channel * d.banks_per_rank; b++) {
    const auto &bank = view.bank(b);
    const bool closed = bank.openRow == std::decay_t<decltype(bank)>::NO_ROW;
    s.rows.push_back(closed ? -1 : static_cast<std::int64_t>(bank.openRow));
    s.column_at[0].push_back(view.column_at(b, Dir::read));
    s.column_at[1].push_back(view.column_at(b, Dir::write));
    s.activate_at.push_back(view.activate_at(b));
  }
  for (Dir dir : {Dir::read, Dir::write})
    for (unsigned i = 0; i < core.queue(dir).entries(); i++)
      if (const ::drfq::Entry &e = core.queue(dir).at(i); !view.ready(e)) s.busy.insert(e.bank);
  return s;
}

Tick DrfqMemCtrl::doBurstAccess(MemPacket *mem_pkt, MemInterface *mem_intr) {
  const Dir dir = mem_pkt->isRead() ? Dir::read : Dir::write;
  ::drfq::Choice c;
  c.found = true;
  c.aged = !baseline && choice.aged;
  c.dir = dir;
  c.place = placeOf(mem_pkt, dir);
  const View view(*this);
  if (log && log->wants_more()) {
    ::drfq::BankState s = bankState(view);
    s.bus_free = mem_intr->nextBurstAt;
    s.turnaround[0] = minWriteToReadDataGap();
    s.turnaround[1] = minReadToWriteDataGap();
    log->decided(curTick(), s, c, core.queue(dir).at(c.place));
  }
  const unsigned i = ::drfq::index(dir);
  record.turnarounds += dir != core.direction();
  const ::drfq::Entry e = core.serve(c);
  record.bursts[i]++;
  record.row_hits[i] += view.row_hit(e);
  record.aged += c.aged;
  const Tick command = MemCtrl::doBurstAccess(mem_pkt, mem_intr);
  record.wait[i].add(command - e.arrival);
  handles.erase(mem_pkt);
  freeHandles.push_back(e.handle);
  servedWrite = dir == Dir::write;
  return command;
}

void DrfqMemCtrl::accessAndRespond(PacketPtr pkt, Tick static_latency, MemInterface *mem_intr) {
  auto *route = dynamic_cast<Route *>(pkt->popSenderState());
  panic_if(route == nullptr, "%s: a packet without its route", name());
  const PortID from = route->from;
  delete route;
  if (from == 0) return MemCtrl::accessAndRespond(pkt, static_latency, mem_intr);
  const bool answer = pkt->needsResponse();
  mem_intr->access(pkt);
  if (!answer) {
    // gem5's MemPacket still points to the packet when control returns to the caller.
    pendingDelete.reset(pkt);
    return;
  }
  const Tick at = curTick() + static_latency + pkt->headerDelay + pkt->payloadDelay;
  pkt->headerDelay = pkt->payloadDelay = 0;
  agents[from - 1]->schedTimingResp(pkt, at);
}

void DrfqMemCtrl::offerRoom(Dir dir) {
  if (!refused[::drfq::index(dir)]) return;
  refused[::drfq::index(dir)] = false;
  // Ports whose packets are refused again rejoin `waiting` in the same order.
  std::vector<PortID> retry;
  retry.swap(waiting);
  for (PortID number : retry) portOf(number).sendRetryReq();
}

bool DrfqMemCtrl::allIntfDrained() const {
  bool closed = MemCtrl::allIntfDrained();
  for (const auto &rank : device->*exposed(Ranks{}))
    closed = closed && rank->numBanksActive == 0 && rank->outstandingEvents == 0;
  return closed;
}

bool DrfqMemCtrl::dramIsTimed() const {
  const auto &ranks = device->*exposed(Ranks{});
  return !ranks.empty() && ranks.front()->refreshEvent.scheduled();
}

::drfq::StateWords DrfqMemCtrl::dramState() const {
  // In another mode than timing nothing of the DRAM has a time.
  if (!dramIsTimed()) return {};
  ::drfq::StateWriter state;
  const Tick next = nextReqEvent.scheduled() ? nextReqEvent.when() : 0;
  state(device->nextBurstAt, device->nextReqTime, device->readsThisTime, device->writesThisTime,
        device->busState, device->busStateNext, next);
  for (const auto &rank : device->*exposed(Ranks{})) {
    state(rank->refreshEvent.when(), rank->actTicks);
    for (const auto &bank : rank->banks)
      state(bank.rdAllowedAt, bank.wrAllowedAt, bank.preAllowedAt, bank.actAllowedAt);
  }
  return state.words();
}

void DrfqMemCtrl::restoreDram(const ::drfq::StateWords &words) {
  ::drfq::StateReader state(words);
  Tick next = 0;
  state(device->nextBurstAt, device->nextReqTime, device->readsThisTime, device->writesThisTime,
        device->busState, device->busStateNext, next);
  if (next != 0) schedule(nextReqEvent, next);
  for (const auto &rank : device->*exposed(Ranks{})) {
    Tick refresh = 0;
    state(refresh, rank->actTicks);
    reschedule(rank->refreshEvent, refresh);
    for (auto &bank : rank->banks)
      state(bank.rdAllowedAt, bank.wrAllowedAt, bank.preAllowedAt, bank.actAllowedAt);
  }
  state.end();
}

void DrfqMemCtrl::drainResume() {
  MemCtrl::drainResume();
  // Not before, because gem5 gives the DRAM its first refresh at its startup().
  if (!restoredDram.empty() && dramIsTimed()) restoreDram(restoredDram);
  restoredDram.clear();
}

void DrfqMemCtrl::serialize(CheckpointOut &cp) const {
  MemCtrl::serialize(cp);
  drfqOut(cp, "core", ::drfq::save_state(core));
  drfqOut(cp, "served", ::drfq::save_state(record));
  drfqOut(cp, "dram", dramState());
  drfqOut(cp, "refused", {refused[0], refused[1]});
}

void DrfqMemCtrl::unserialize(CheckpointIn &cp) {
  MemCtrl::unserialize(cp);
  fatal_if(log != nullptr, "%s: a log of decisions starts with the run, so none in a restored one",
           name());
  drfqLoad(&core, drfqIn(cp, "core"), name());
  drfqLoad(&record, drfqIn(cp, "served"), name());
  restoredDram = drfqIn(cp, "dram");
  const ::drfq::StateWords both = drfqIn(cp, "refused");
  for (unsigned i = 0; i < 2; i++) refused[i] = both.at(i) != 0;
}

}  // namespace memory
}  // namespace gem5
