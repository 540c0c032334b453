// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_FUZZ_EXPECTATIONS_HH
#define DRFQ_NVME_FUZZ_EXPECTATIONS_HH

#include "nvme/protocol.hh"
#include "watched_device.hh"

namespace drfq::nvme {

/// Throws if a rule is broken.
inline void expect(bool holds, const char *broken) {
  if (!holds) throw Violation(broken);
}

inline constexpr unsigned kNoQueue = ~0u;

inline std::uint64_t lba_of(const Sqe &s) { return s.cdw10 | std::uint64_t{s.cdw11} << 32; }
inline std::uint64_t blocks_of(const Sqe &s) { return (s.cdw12 & 0xffff) + 1; }

inline bool moves_data(const Sqe &s) {
  return static_cast<Io>(s.opcode) == Io::read || static_cast<Io>(s.opcode) == Io::write;
}

/// Whether an I/O command may succeed on a disk of so many blocks, if its memory exists.
inline bool is_valid_io(const Sqe &s, std::uint64_t blocks) {
  if (s.flags != 0) return false;
  if (static_cast<Io>(s.opcode) == Io::flush) return true;
  if (!moves_data(s) && static_cast<Io>(s.opcode) != Io::write_zeroes) return false;
  return s.nsid == 1 && lba_of(s) < blocks && blocks_of(s) <= blocks - lba_of(s);
}

}  // namespace drfq::nvme

#endif
