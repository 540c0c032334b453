// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_IDENTIFY_HH
#define DRFQ_NVME_IDENTIFY_HH

#include <array>

#include "protocol.hh"

namespace drfq::nvme {

using Page = std::array<std::uint8_t, kPageBytes>;

/// The answer of Identify (5.15). *page is valid only if the status is ok.
Status identify(const Sqe &, std::uint64_t blocks, Page *page);

}  // namespace drfq::nvme

#endif
