// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_PREFETCHER_HH
#define DRFQ_GEM5_PREFETCHER_HH

#include <vector>

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
    // Requests that earlier accesses queued have their stamps already, but for translated ones.
    for (auto &deferred : this->pfq)
      if (!deferred.translationRequest) drfqStamp(deferred.pkt->req, label);
  }

  /** A prefetch beyond the page is made after its translation, which has the label. */
  PacketPtr getPacket() override {
    std::vector<RequestPtr> translations;
    for (auto *queue : {&this->pfq, &this->pfqMissingTranslation})
      for (const auto &deferred : *queue)
        if (deferred.translationRequest) translations.push_back(deferred.translationRequest);
    // May translate an address and take its prefetch at once.
    const PacketPtr pkt = Prefetcher::getPacket();
    if (pkt == nullptr) return nullptr;
    for (const RequestPtr &translation : translations)
      if (translation->hasPaddr() && translation->getPaddr() == pkt->getAddr())
        drfqStamp(pkt->req, drfqLabelOf(translation));
    return pkt;
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
