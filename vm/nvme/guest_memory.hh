// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_GUEST_MEMORY_HH
#define DRFQ_NVME_GUEST_MEMORY_HH

#include <cstddef>
#include <cstdint>

namespace drfq::nvme {

/// The guest's physical memory as a device accesses it. An access to an address without memory
/// returns false and moves nothing.
class GuestMemory {
 public:
  virtual ~GuestMemory() = default;
  virtual bool read(std::uint64_t address, void *to, std::size_t bytes) = 0;
  virtual bool write(std::uint64_t address, const void *from, std::size_t bytes) = 0;
};

}  // namespace drfq::nvme

#endif
