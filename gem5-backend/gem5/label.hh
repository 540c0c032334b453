// SPDX-License-Identifier: GPL-2.0-only
// The label of a request in gem5 names its owner. CPUs set a context id and devices a substream
// id. gem5's own devices and a CPU's page walkers set none: DrfqSenders stamps their requests. A
// request that a cache or a prefetcher makes has none either. DrfqCache and the Drfq prefetchers
// stamp it with the label of the access that caused it (thesis 3.6).
#ifndef DRFQ_GEM5_LABEL_HH
#define DRFQ_GEM5_LABEL_HH

#include "base/extensible.hh"
#include "core/attribution.hh"
#include "mem/packet.hh"
#include "mem/request.hh"

namespace gem5 {

class DrfqLabel : public Extension<Request, DrfqLabel> {
 public:
  explicit DrfqLabel(const ::drfq::Label &l) : label(l) {}

  std::unique_ptr<ExtensionBase> clone() const override {
    return std::make_unique<DrfqLabel>(label);
  }

  const ::drfq::Label label;
};

/** A stamp decides; then the ids that gem5 carries. A substream of 0 means none. */
inline ::drfq::Label drfqLabelOf(const RequestPtr &req) {
  if (const auto stamp = req->getExtension<DrfqLabel>()) return stamp->label;
  if (req->hasSubstreamId() && req->substreamId() != 0)
    return ::drfq::Label::of_substream(req->substreamId());
  if (req->hasContextId()) return ::drfq::Label::of_core(req->contextId());
  return {};
}

inline bool drfqIsLabelled(const RequestPtr &req) {
  const ::drfq::Label own = drfqLabelOf(req);
  return own.core != ::drfq::Label::kNoCore || own.substream != 0;
}

/** Stamps a request that has no label. */
inline void drfqStamp(const RequestPtr &req, const ::drfq::Label &label) {
  if (!drfqIsLabelled(req)) req->setExtension(std::make_shared<DrfqLabel>(label));
}

}  // namespace gem5

#endif
