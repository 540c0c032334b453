// SPDX-License-Identifier: GPL-2.0-only
// What a device moves between itself and memory.
#ifndef DRFQ_HARDWARE_TRANSFER_HH
#define DRFQ_HARDWARE_TRANSFER_HH

#include <cstdint>
#include <vector>

#include "core/units.hh"

namespace drfq::hardware {

/// A piece of guest-physical memory.
struct Segment {
  std::uint64_t address = 0, bytes = 0;
};

/// The traffic of one command. Without segments it takes the device's latency only.
struct Transfer {
  std::uint64_t id = 0;           ///< the device's name for it, never used twice
  Dir dir = Dir::write;           ///< write: into memory
  std::vector<Segment> segments;  ///< in the order of the data
  unsigned target = 0;            ///< the core that its completion interrupts
};

/// A transfer whose last line has arrived or is accepted. The device must not signal it before
/// `due`.
struct FinishedTransfer {
  std::uint64_t id = 0;
  unsigned target = 0;
  Pid pid = 0;  ///< that the controller charged
  Ps started = 0, due = 0;
};

/// What the device has moved since the start.
struct DeviceTraffic {
  std::uint64_t transfers = 0;
  std::uint64_t to_memory_bytes = 0, from_memory_bytes = 0;
  std::uint64_t cached_bytes = 0;  ///< the part of both that stayed in the shared cache
};

}  // namespace drfq::hardware

#endif
