// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_CACHE_HH
#define DRFQ_GEM5_CACHE_HH

#include "gem5/device_owners.hh"
#include "mem/cache/cache.hh"
#include "params/DrfqCache.hh"

namespace gem5 {

/** Stamps evictions with the label of the request or the fill that causes them. */
class DrfqCache : public Cache {
 public:
  explicit DrfqCache(const DrfqCacheParams &p) : Cache(p), owners(p.device_owners) {}

 protected:
  void recvTimingReq(PacketPtr pkt) override;
  void recvTimingResp(PacketPtr pkt) override;
  PacketPtr evictBlock(CacheBlk *blk) override;

 private:
  const DrfqDeviceOwners *const owners;  // may be null
  ::drfq::Label cause;
};

}  // namespace gem5

#endif
