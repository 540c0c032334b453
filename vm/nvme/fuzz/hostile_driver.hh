// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_FUZZ_HOSTILE_DRIVER_HH
#define DRFQ_NVME_FUZZ_HOSTILE_DRIVER_HH

#include <cstddef>

namespace drfq::nvme {

/// Does what the bytes tell as a driver of the controller. Throws std::logic_error if the device
/// breaks a rule. The work is bounded, whatever the bytes are.
void drive(const unsigned char *data, std::size_t size);

}  // namespace drfq::nvme

#endif
