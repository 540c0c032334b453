// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_CACHE_HH
#define DRFQ_GEM5_CACHE_HH

#include "gem5/senders.hh"
#include "mem/cache/cache.hh"
#include "mem/cache/mshr.hh"
#include "params/DrfqCache.hh"

namespace gem5 {

/** Stamps write-backs with the label of the request, the fill or the snoop that causes them. */
class DrfqCache : public Cache {
 public:
  explicit DrfqCache(const DrfqCacheParams &p) : Cache(p), senders(p.system, p.device_owners) {}

  bool sendMSHRQueuePacket(MSHR *mshr) override;

 protected:
  void recvTimingReq(PacketPtr pkt) override;
  void recvTimingResp(PacketPtr pkt) override;
  void recvTimingSnoopReq(PacketPtr pkt) override;
  void doWritebacks(PacketList &writebacks, Tick forward_time) override;

 private:
  DrfqSenders senders;
  ::drfq::Label cause;
};

}  // namespace gem5

#endif
