// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/cache.hh"

namespace gem5 {

void DrfqCache::recvTimingReq(PacketPtr pkt) {
  cause = senders.stamp(pkt->req);
  Cache::recvTimingReq(pkt);
}

void DrfqCache::recvTimingResp(PacketPtr pkt) {
  cause = senders.stamp(pkt->req);
  Cache::recvTimingResp(pkt);
}

// A request to clean a line writes it back: here if this cache sends the request on, and below if
// the request comes from elsewhere.
bool DrfqCache::sendMSHRQueuePacket(MSHR *mshr) {
  cause = senders.stamp(mshr->getTarget()->pkt->req);
  return Cache::sendMSHRQueuePacket(mshr);
}

void DrfqCache::recvTimingSnoopReq(PacketPtr pkt) {
  cause = senders.stamp(pkt->req);
  Cache::recvTimingSnoopReq(pkt);
}

void DrfqCache::doWritebacks(PacketList &writebacks, Tick forward_time) {
  for (const PacketPtr pkt : writebacks) drfqStamp(pkt->req, cause);
  Cache::doWritebacks(writebacks, forward_time);
}

}  // namespace gem5
