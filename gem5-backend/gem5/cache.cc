// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/cache.hh"

namespace gem5 {

void DrfqCache::recvTimingReq(PacketPtr pkt) {
  if (owners != nullptr) owners->stamp(pkt->req);
  cause = drfqLabelOf(pkt->req);
  Cache::recvTimingReq(pkt);
}

void DrfqCache::recvTimingResp(PacketPtr pkt) {
  cause = drfqLabelOf(pkt->req);
  Cache::recvTimingResp(pkt);
}

PacketPtr DrfqCache::evictBlock(CacheBlk *blk) {
  PacketPtr pkt = Cache::evictBlock(blk);
  if (pkt != nullptr) drfqStamp(pkt->req, cause);
  return pkt;
}

}  // namespace gem5
