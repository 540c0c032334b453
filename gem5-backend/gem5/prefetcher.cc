// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/prefetcher.hh"

namespace gem5 {

namespace prefetch {

DrfqStride::DrfqStride(const DrfqStridePrefetcherParams &p) : DrfqLabelled<Stride>(p) {}

DrfqTagged::DrfqTagged(const DrfqTaggedPrefetcherParams &p) : DrfqLabelled<Tagged>(p) {}

}  // namespace prefetch
}  // namespace gem5
