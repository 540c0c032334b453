// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_PREFETCHER_HH
#define DRFQ_GEM5_PREFETCHER_HH

#include "gem5/label.hh"
#include "mem/cache/prefetch/stride.hh"
#include "mem/cache/prefetch/tagged.hh"
#include "params/DrfqStridePrefetcher.hh"
#include "params/DrfqTaggedPrefetcher.hh"

namespace gem5 {

namespace prefetch {

/** Any queued prefetcher, its requests stamped with the label of their trigger. */
template <class Prefetcher>
class DrfqLabelled : public Prefetcher {
 public:
  using Prefetcher::Prefetcher;

  void notify(const CacheAccessProbeArg &acc,
              const typename Prefetcher::PrefetchInfo &pfi) override {
    Prefetcher::notify(acc, pfi);
    const ::drfq::Label label = drfqLabelOf(acc.pkt->req);
    // Requests that earlier accesses queued have their stamps already.
    for (auto &deferred : this->pfq) drfqStamp(deferred.pkt->req, label);
  }
};

class DrfqStride : public DrfqLabelled<Stride> {
 public:
  explicit DrfqStride(const DrfqStridePrefetcherParams &p);
};

class DrfqTagged : public DrfqLabelled<Tagged> {
 public:
  explicit DrfqTagged(const DrfqTaggedPrefetcherParams &p);
};

}  // namespace prefetch
}  // namespace gem5

#endif
