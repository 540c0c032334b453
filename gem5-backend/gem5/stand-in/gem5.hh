// SPDX-License-Identifier: GPL-2.0-only
// A STAND-IN for the part of gem5 that this directory uses: declarations only,
// written after gem5 24.0's interface, without any of its code. It lets our side
// be compiled where there is no gem5. It catches what we break, not what gem5
// changes. The build makes a header of each of gem5's names that includes this.
#ifndef DRFQ_GEM5_STAND_IN_HH
#define DRFQ_GEM5_STAND_IN_HH

#include <cassert>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#define panic_if(condition, ...)                 \
  do {                                           \
    if (condition) ::gem5::standIn(__VA_ARGS__); \
  } while (0)
#define fatal_if(condition, ...) panic_if(condition, __VA_ARGS__)

namespace gem5 {

using Tick = std::uint64_t;
using Addr = std::uint64_t;
using PortID = std::int16_t;
using ContextID = int;
using RequestorID = std::uint16_t;
constexpr PortID InvalidPortID = -1;

template <class... Args>
[[noreturn]] void standIn(const char *, Args...);
template <class... Args>
std::string csprintf(const char *, Args...);
Tick curTick();
void registerExitCallback(const std::function<void()> &);
template <class T, class U>
T divCeil(T, U);

class Logger {
 public:
  enum LogLevel { PANIC, FATAL, WARN, INFO, HACK };
  static void setLevel(LogLevel);
};

class ExtensionBase {
 public:
  virtual ~ExtensionBase() = default;
  virtual std::unique_ptr<ExtensionBase> clone() const = 0;
};
template <class Target, class T>
class Extension : public ExtensionBase {};

class Request {
 public:
  Request(Addr, unsigned, int, RequestorID);
  template <class T>
  std::shared_ptr<T> getExtension();
  template <class T>
  void setExtension(std::shared_ptr<T>);
  bool hasSubstreamId() const;
  std::uint32_t substreamId() const;
  bool hasContextId() const;
  ContextID contextId() const;
  bool hasPaddr() const;
  Addr getPaddr() const;
  RequestorID requestorId() const;
  static constexpr RequestorID invldRequestorId = -1;
  void setContext(ContextID);
  void setStreamId(std::uint32_t);
  void setSubstreamId(std::uint32_t);
  void setPC(Addr);
};
using RequestPtr = std::shared_ptr<Request>;

struct MemCmd {
  enum Command { ReadReq, WriteReq };
  MemCmd(Command);
};

class Packet {
 public:
  struct SenderState {
    virtual ~SenderState() {}
  };
  Packet(const RequestPtr &, MemCmd);
  RequestPtr req;
  std::uint32_t headerDelay, payloadDelay;
  void allocate();
  template <class T>
  T *getPtr();
  bool isRead() const;
  bool isWrite() const;
  bool needsResponse() const;
  Addr getAddr() const;
  unsigned getSize() const;
  void pushSenderState(SenderState *);
  SenderState *popSenderState();
  template <class T>
  void setLE(T);
  template <class T>
  T getLE() const;
  void makeAtomicResponse();
  void setBadAddress();
};
using PacketPtr = Packet *;

class EventFunctionWrapper {
 public:
  EventFunctionWrapper(const std::function<void()> &, const std::string &);
  bool scheduled() const;
  Tick when() const;
};
class EventManager {
 public:
  void schedule(EventFunctionWrapper &, Tick);
  void deschedule(EventFunctionWrapper &);
  void reschedule(EventFunctionWrapper &, Tick, bool = false);
};

class Port {
 public:
  virtual ~Port();
  bool isConnected() const;
};
class AddrRange {};
using AddrRangeList = std::list<AddrRange>;
class RequestPort : public Port {
 public:
  explicit RequestPort(const std::string &, PortID = InvalidPortID);
  bool sendTimingReq(PacketPtr);

 protected:
  virtual bool recvTimingResp(PacketPtr) = 0;
  virtual void recvReqRetry() = 0;
};
class ResponsePort : public Port {
 public:
  void sendRetryReq();
  void sendRangeChange() const;
};
class RespPacketQueue {
 public:
  RespPacketQueue(EventManager &, ResponsePort &, bool = false, const std::string = "");
};
class QueuedResponsePort : public ResponsePort {
 public:
  QueuedResponsePort(const std::string &, RespPacketQueue &, PortID = InvalidPortID);
  void schedTimingResp(PacketPtr, Tick);

 protected:
  virtual bool recvTimingReq(PacketPtr) = 0;
  virtual Tick recvAtomic(PacketPtr) = 0;
  virtual void recvFunctional(PacketPtr) = 0;
  virtual AddrRangeList getAddrRanges() const = 0;
};

using CheckpointOut = std::ostream;
class CheckpointIn;
template <class T>
void arrayParamOut(CheckpointOut &, const std::string &, const T &);
template <class T>
void arrayParamIn(CheckpointIn &, const std::string &, T &);

enum class DrainState { Running, Draining, Drained, Resuming };
struct SimObjectParams {
  std::string name;
};
class SimObject : public EventManager {
 public:
  explicit SimObject(const SimObjectParams &);
  virtual ~SimObject();
  virtual void serialize(CheckpointOut &) const;
  virtual void unserialize(CheckpointIn &);
  virtual DrainState drain();
  virtual void drainResume();
  DrainState drainState() const;
  std::string name() const;
  const SimObjectParams &params() const;
  virtual Port &getPort(const std::string &, PortID = InvalidPortID);
  virtual void init();

 protected:
  void signalDrainDone() const;
};
struct ClockedObjectParams : public SimObjectParams {
  virtual ~ClockedObjectParams() = default;
};
class ClockedObject : public SimObject {
 public:
  explicit ClockedObject(const ClockedObjectParams &);
  const ClockedObjectParams &params() const;
  void serialize(CheckpointOut &) const override;
  void unserialize(CheckpointIn &) override;
};
class BaseCPU : public ClockedObject {};
class ThreadContext {
 public:
  virtual ~ThreadContext();
  virtual BaseCPU *getCpuPtr() = 0;
  virtual ContextID contextId() const = 0;
};
class System : public SimObject {
 public:
  std::vector<ThreadContext *> threads;
  std::string getRequestorName(RequestorID);
  RequestorID getRequestorId(const SimObject *, std::string = {});
  RequestorID lookupRequestorId(const SimObject *) const;
};

class GlobalSimLoopExitEvent {
 public:
  const std::string getCause() const;
};
GlobalSimLoopExitEvent *simulate(Tick);

struct BasicPioDeviceParams : public ClockedObjectParams {};
class BasicPioDevice : public ClockedObject {
 public:
  BasicPioDevice(const BasicPioDeviceParams &, Addr size);
  void init() override;
  virtual Tick read(PacketPtr) = 0;
  virtual Tick write(PacketPtr) = 0;

 protected:
  System *sys;
  Addr pioAddr;
  Tick pioDelay;
};

struct PciDeviceParams : public ClockedObjectParams {
  std::uint16_t VendorID, DeviceID;
};
class PciDevice : public ClockedObject {
 public:
  explicit PciDevice(const PciDeviceParams &);
  virtual Tick read(PacketPtr) = 0;
  virtual Tick write(PacketPtr) = 0;

 protected:
  Tick pioDelay;
  bool getBAR(Addr, int &, Addr &);
};

class MSHR {
 public:
  struct Target {
    PacketPtr pkt;
  };
  Target *getTarget();
};
struct CacheParams : public ClockedObjectParams {
  System *system;
};
using PacketList = std::list<PacketPtr>;
class Cache : public ClockedObject {
 public:
  explicit Cache(const CacheParams &);
  virtual bool sendMSHRQueuePacket(MSHR *);

 protected:
  virtual void recvTimingReq(PacketPtr);
  virtual void recvTimingResp(PacketPtr);
  virtual void recvTimingSnoopReq(PacketPtr);
  virtual void doWritebacks(PacketList &, Tick);
};

struct StridePrefetcherParams : public ClockedObjectParams {};
struct TaggedPrefetcherParams : public ClockedObjectParams {};
struct CacheAccessProbeArg {
  PacketPtr pkt;
};

namespace prefetch {

class Queued : public ClockedObject {
 public:
  class PrefetchInfo;
  using ClockedObject::ClockedObject;
  virtual void notify(const CacheAccessProbeArg &, const PrefetchInfo &);
  virtual PacketPtr getPacket();

 protected:
  struct DeferredPacket {
    PacketPtr pkt;
    RequestPtr translationRequest;
  };
  std::list<DeferredPacket> pfq, pfqMissingTranslation;
};
class Stride : public Queued {
 public:
  explicit Stride(const StridePrefetcherParams &);
};
class Tagged : public Queued {
 public:
  explicit Tagged(const TaggedPrefetcherParams &);
};

}  // namespace prefetch

namespace memory {
class MemInterface;
}

struct DRAMInterfaceParams : public ClockedObjectParams {
  unsigned ranks_per_channel, banks_per_rank, read_buffer_size, write_buffer_size;
  Tick tRP, tRCD;
};
namespace memory::qos {
class Policy;
class TurnaroundPolicy;
}  // namespace memory::qos

struct MemCtrlParams : public ClockedObjectParams {
  System *system;
  unsigned qos_priorities;
  memory::qos::Policy *qos_policy;
  memory::qos::TurnaroundPolicy *qos_turnaround_policy;
  memory::MemInterface *dram;
  unsigned write_high_thresh_perc, write_low_thresh_perc;
  unsigned min_writes_per_switch, min_reads_per_switch;
};

namespace memory {

class MemCtrl;
class MemPacket {
 public:
  std::uint32_t row;
  std::uint16_t bankId;
  bool isRead() const;
};
using MemPacketQueue = std::deque<MemPacket *>;

namespace qos {

class MemCtrl : public ClockedObject {
 public:
  using ClockedObject::ClockedObject;
  enum BusState { READ, WRITE };
};

}  // namespace qos

class MemInterface : public ClockedObject {
 protected:
  class Bank {
   public:
    static const std::uint32_t NO_ROW = -1;
    std::uint32_t openRow;
    Tick rdAllowedAt, wrAllowedAt, preAllowedAt, actAllowedAt;
  };

 public:
  std::uint32_t readBufferSize, writeBufferSize;
  Tick nextBurstAt, nextReqTime;
  std::uint32_t readsThisTime, writesThisTime;
  qos::MemCtrl::BusState busState, busStateNext;
  std::uint32_t bytesPerBurst() const;
  void access(PacketPtr);
  virtual bool burstReady(MemPacket *) const = 0;
};

class DRAMInterface : public MemInterface {
  class Rank {
   public:
    std::vector<Bank> banks;
    unsigned numBanksActive;
    std::uint8_t outstandingEvents;
    std::deque<Tick> actTicks;
    EventFunctionWrapper refreshEvent;
  };
  std::vector<Rank *> ranks;

 public:
  bool burstReady(MemPacket *) const override;
};

class MemCtrl : public qos::MemCtrl {
 protected:
  class MemoryPort : public QueuedResponsePort {
    bool recvTimingReq(PacketPtr) override;
    Tick recvAtomic(PacketPtr) override;
    void recvFunctional(PacketPtr) override;
    AddrRangeList getAddrRanges() const override;
  };
  MemoryPort port;
  EventFunctionWrapper nextReqEvent;
  MemInterface *dram;
  std::vector<MemPacketQueue> readQueue, writeQueue;
  std::deque<MemPacket *> respQueue;
  std::unique_ptr<Packet> pendingDelete;
  virtual void processNextReqEvent(MemInterface *, MemPacketQueue &, EventFunctionWrapper &,
                                   EventFunctionWrapper &, bool &);
  virtual void processRespondEvent(MemInterface *, MemPacketQueue &, EventFunctionWrapper &,
                                   bool &);
  virtual Tick doBurstAccess(MemPacket *, MemInterface *);
  virtual void accessAndRespond(PacketPtr, Tick, MemInterface *);
  virtual Tick minReadToWriteDataGap();
  virtual Tick minWriteToReadDataGap();
  virtual MemPacketQueue::iterator chooseNext(MemPacketQueue &, Tick, MemInterface *);
  virtual AddrRangeList getAddrRanges();
  virtual Tick recvAtomic(PacketPtr);
  virtual void recvFunctional(PacketPtr);
  virtual bool recvTimingReq(PacketPtr);

 public:
  explicit MemCtrl(const MemCtrlParams &);
  virtual bool allIntfDrained() const;
  void drainResume() override;
};

class DrfqMemCtrl;

}  // namespace memory

class DrfqDeviceOwners;

// What gem5's build makes of Drfq.py.
struct DrfqMemCtrlParams : public MemCtrlParams {
  bool frfcfs, prepare, batch;
  unsigned cores, tie_bursts, run_bursts;
  bool share;
  Tick aging;
  std::string decision_log, version;
  std::uint64_t decisions;
  DrfqDeviceOwners *device_owners;
  int port_agents_connection_count;
};
struct DrfqRegistersParams : public BasicPioDeviceParams {
  std::vector<memory::DrfqMemCtrl *> controllers;
};
struct DrfqPciRegistersParams : public PciDeviceParams {
  std::vector<memory::DrfqMemCtrl *> controllers;
};
struct DrfqAgentParams : public ClockedObjectParams {
  System *system;
  std::uint64_t memory_bytes;
};
class DrfqAgent;
struct DrfqHostParams : public SimObjectParams {
  std::vector<memory::DrfqMemCtrl *> controllers;
  std::vector<DrfqAgent *> agents;
};
struct DrfqCacheParams : public CacheParams {
  DrfqDeviceOwners *device_owners;
};
struct DrfqDeviceOwnersParams : public BasicPioDeviceParams {
  std::vector<SimObject *> devices;
  std::vector<std::uint64_t> owners;
};
struct DrfqStridePrefetcherParams : public StridePrefetcherParams {};
struct DrfqTaggedPrefetcherParams : public TaggedPrefetcherParams {};

}  // namespace gem5

#endif
