// SPDX-License-Identifier: GPL-2.0-only
// Physical region pages: where a command's data lies in the guest's memory (NVMe 1.4, 4.3).
#ifndef DRFQ_NVME_PRP_HH
#define DRFQ_NVME_PRP_HH

#include <vector>

#include "guest_memory.hh"
#include "hardware/transfer.hh"
#include "protocol.hh"

namespace drfq::nvme {

/// Reads where the data of a command lies. bytes: at most kMaxTransferPages pages. *out is complete
/// only if the status is ok. Reads at most one list entry for each page, so a list that points to
/// itself ends, too.
Status read_prps(GuestMemory &, std::uint64_t prp1, std::uint64_t prp2, std::uint64_t bytes,
                 std::vector<hardware::Segment> *out);

}  // namespace drfq::nvme

#endif
