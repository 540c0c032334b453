// SPDX-License-Identifier: GPL-2.0-only
// The units and names that every part of the memory controller uses.
#ifndef DRFQ_UNITS_HH
#define DRFQ_UNITS_HH

#include <cstdint>

namespace drfq {

/// Simulated time, picoseconds since the start. Wraps after 213 days.
using Ps = std::uint64_t;

/// Virtual time as the registers hold it: the agent's ns shifted right by 22.
using VTime = std::uint64_t;

/// Hardware process id, an index of the register file. 0: unattributed.
using Pid = std::uint32_t;

inline constexpr Ps kNever = ~Ps{0};
inline constexpr Ps kPsPerNs = 1000;
inline constexpr Ps kPsPerUs = 1000 * kPsPerNs;
inline constexpr Ps kPsPerMs = 1000 * kPsPerUs;

/// Direction of the data bus, and the name of the two queues.
enum class Dir : std::uint8_t { read = 0, write = 1 };

constexpr Dir other(Dir d) { return d == Dir::read ? Dir::write : Dir::read; }
constexpr unsigned index(Dir d) { return static_cast<unsigned>(d); }
constexpr const char *name(Dir d) { return d == Dir::read ? "read" : "write"; }

}  // namespace drfq

#endif
