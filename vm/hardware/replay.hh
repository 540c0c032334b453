// SPDX-License-Identifier: GPL-2.0-only
// Plays an input log (input_log.hh) back.
#ifndef DRFQ_HARDWARE_REPLAY_HH
#define DRFQ_HARDWARE_REPLAY_HH

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>

namespace drfq::hardware {

struct Replayed {
  std::uint64_t transfers = 0;  ///< that finished at the same time, in the same order
  std::uint64_t clocks = 0;     ///< of cores, with their traffic, that were the same
  std::string difference;       ///< the first one from what the log says; empty: none
};

/// Computes a machine's times again, up to the first difference. skip: leaves out so many calls for
/// playback between two, as if the emulator's threads had called at other moments. Then clocks are
/// not compared. transfers: gets a line for each finished transfer (kTransferColumns); may be null.
/// Throws std::runtime_error if the log is damaged.
Replayed replay(std::istream &log, unsigned skip, std::ostream *transfers);

inline constexpr const char *kTransferColumns = "id,pid,started_ps,due_ps";

}  // namespace drfq::hardware

#endif
