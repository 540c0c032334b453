// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_MEM_CTRL_HH
#define DRFQ_GEM5_MEM_CTRL_HH

#include <fstream>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/controller.hh"
#include "core/state.hh"
#include "gem5/senders.hh"
#include "mem/dram_interface.hh"
#include "mem/mem_ctrl.hh"
#include "mem/qport.hh"
#include "host/decision_log.hh"
#include "model/stats.hh"
#include "params/DrfqMemCtrl.hh"

namespace gem5 {

namespace memory {

/**
 * gem5's memory controller with the decisions of the core: its queues, DRAM and
 * timing stay gem5's. The core holds a mirror of both queues; an entry's handle
 * leads to gem5's packet. As the baseline (frfcfs) gem5 decides by itself and
 * the core only counts and logs.
 */
class DrfqMemCtrl : public MemCtrl {
 public:
  explicit DrfqMemCtrl(const DrfqMemCtrlParams &p);

  ::drfq::Controller &controller() { return core; }
  const ::drfq::Stats &served() const { return record; }
  void clearServed() { record.clear(curTick()); }
  /** Whether a burst waits or a read is on its way. */
  bool busy() const;

  ::drfq::Access readRegister(Addr offset, std::uint64_t *value);
  ::drfq::Access writeRegister(Addr offset, std::uint64_t value);
  /** Logs a register write that did not pass through writeRegister(). */
  void wroteRegister(Addr offset, std::uint64_t value);

  Port &getPort(const std::string &if_name, PortID idx = InvalidPortID) override;
  void init() override;
  /** gem5's ranks are drained and, beyond what gem5 asks for, all banks are closed. */
  bool allIntfDrained() const override;
  void drainResume() override;
  void serialize(CheckpointOut &cp) const override;
  void unserialize(CheckpointIn &cp) override;

 protected:
  bool recvTimingReq(PacketPtr pkt) override;
  void processNextReqEvent(MemInterface *mem_intr, MemPacketQueue &resp_queue,
                           EventFunctionWrapper &resp_event, EventFunctionWrapper &next_req_event,
                           bool &retry_wr_req) override;
  void processRespondEvent(MemInterface *mem_intr, MemPacketQueue &queue,
                           EventFunctionWrapper &resp_event, bool &retry_rd_req) override;
  MemPacketQueue::iterator chooseNext(MemPacketQueue &queue, Tick extra_col_delay,
                                      MemInterface *mem_intr) override;
  Tick doBurstAccess(MemPacket *mem_pkt, MemInterface *mem_intr) override;
  void accessAndRespond(PacketPtr pkt, Tick static_latency, MemInterface *mem_intr) override;

 private:
  /** The port of one agent. Number 0 is the inherited port. */
  class AgentPort : public QueuedResponsePort {
   public:
    AgentPort(DrfqMemCtrl &ctrl, PortID number);

   protected:
    bool recvTimingReq(PacketPtr pkt) override { return ctrl.receive(pkt, number); }
    Tick recvAtomic(PacketPtr pkt) override { return ctrl.recvAtomic(pkt); }
    void recvFunctional(PacketPtr pkt) override { ctrl.recvFunctional(pkt); }
    AddrRangeList getAddrRanges() const override { return ctrl.getAddrRanges(); }

   private:
    DrfqMemCtrl &ctrl;
    RespPacketQueue responses;
    const PortID number;
  };

  /** The View of core/pick.hh. */
  struct View;

  bool receive(PacketPtr pkt, PortID from);
  ResponsePort &portOf(PortID number);
  void mirror(const MemPacketQueue &queue, std::size_t from, ::drfq::Dir dir,
              const ::drfq::Attribution &attribution);
  unsigned placeOf(const MemPacket *mem_pkt, ::drfq::Dir dir) const;
  ::drfq::BankState bankState(const View &view) const;
  /** Whether the DRAM keeps time, as in timing mode once gem5 has started. */
  bool dramIsTimed() const;
  /** The timing of the drained DRAM, which gem5 does not save. */
  ::drfq::StateWords dramState() const;
  void restoreDram(const ::drfq::StateWords &words);
  /** Decides again once an entry is overdue, because writes that wait for more have no event. */
  void awaitOverdue();
  void decideAgain();
  /** Packets of a direction may be admitted again. */
  void offerRoom(::drfq::Dir dir);

  const bool baseline;
  DRAMInterface *const device;
  const ::drfq::Ps precharge;
  const ::drfq::Ps rowToColumn;
  DrfqSenders senders;
  ::drfq::Controller core;
  ::drfq::Stats record;
  ::drfq::Choice choice;
  bool servedWrite = false;
  EventFunctionWrapper overdueEvent;
  std::vector<MemPacket *> packets;  // by handle
  std::vector<std::uint16_t> freeHandles;
  std::unordered_map<const MemPacket *, std::uint16_t> handles;
  std::vector<std::unique_ptr<AgentPort>> agents;
  bool refused[2] = {false, false};
  std::vector<PortID> waiting;      // refused, oldest first
  ::drfq::StateWords restoredDram;  // until drainResume()
  std::ofstream logFile;
  std::unique_ptr<::drfq::DecisionWriter> log;
};

}  // namespace memory
}  // namespace gem5

#endif
