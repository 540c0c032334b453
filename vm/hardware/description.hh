// SPDX-License-Identifier: GPL-2.0-only
// What a machine is made of: the contents of machines/*.toml.
#ifndef DRFQ_MACHINE_DESCRIPTION_HH
#define DRFQ_MACHINE_DESCRIPTION_HH

#include <cstdint>
#include <string>

#include "model/memory.hh"

namespace drfq::machine {

inline constexpr unsigned kCoresMax = 64;
inline constexpr unsigned kLineBytes = 64;

/// A set-associative cache of 64-byte lines, least recently used goes first.
struct CacheShape {
  std::uint64_t bytes = 0;
  unsigned ways = 0;
  Ps hit = 0;  ///< what a hit costs the core, beyond its instruction

  unsigned sets() const {
    return static_cast<unsigned>(bytes / (std::uint64_t{ways} * kLineBytes));
  }
};

/// Prefetches into the shared cache, from each core's misses of its private one.
struct PrefetchShape {
  enum class Kind : std::uint8_t { none, next_line, stride };
  Kind kind = Kind::none;
  unsigned degree = 1;       ///< lines ahead
  unsigned streams = 16;     ///< that one core may have (stride)
  unsigned outstanding = 4;  ///< prefetches that one core may have on their way
};

/// How strongly a throttling value acts (rdt.hh).
enum class Throttle : std::uint8_t { linear, mt2 };

/// Resource Director Technology. A part that is absent has a count of 0.
struct RdtShape {
  unsigned rmids = 0;           ///< 0: no monitoring
  unsigned upscale = 64;        ///< bytes per count of occupancy and bandwidth
  unsigned counter_bits = 24;   ///< of the bandwidth counters, 24..62
  unsigned l3_closes = 0;       ///< 0: no cache allocation
  unsigned cbm_bits = 0;        ///< length of a mask; divides the ways
  unsigned mba_closes = 0;      ///< 0: no bandwidth allocation
  unsigned mba_max_delay = 90;  ///< percent
  unsigned mba_step = 10;       ///< percent; values between are rounded up to one
  Throttle throttle = Throttle::linear;
};

/// Architectural performance monitoring. version 0: none.
struct PmuShape {
  unsigned version = 0;
  unsigned counters = 0;  ///< programmable, per core
  unsigned fixed = 0;     ///< 0..3
  unsigned bits = 48;     ///< width of each
};

struct Description {
  std::string name;
  std::string about;
  unsigned cores = 4;
  std::uint64_t clock_hz = 0;
  std::uint64_t tsc_hz = 1'000'000'000;
  double insns_per_cycle = 1;  ///< of work that hits the private cache
  unsigned window = 0;         ///< instructions that may go on behind a miss; 0: a miss blocks
  unsigned misses = 1;         ///< of one core that may be outstanding, when there is a window
  unsigned scale = 1;          ///< every time of the memory is multiplied by it
  Ps quantum = 20 * kPsPerUs;  ///< how far the clocks of two cores may be apart
  CacheShape l1, llc;
  PrefetchShape prefetch;
  RdtShape rdt;
  PmuShape pmu;
  MemoryOptions memory;   ///< its timing is scaled already
  bool bank_hash = true;  ///< which bank depends on the row too (bank_hash.hh)

  /// Instruction time, in femtoseconds so that odd clocks do not drift.
  std::uint64_t fs_per_insn() const;
  /// Peak of the data bus.
  double peak_bytes_per_ns() const { return memory.timing.bytes_per_ns(); }
};

/// Reads a description; file is for messages. Throws toml::Error, whose what()
/// says file, line and reason.
Description load_description(const std::string &file, const std::string &text);

}  // namespace drfq::machine

#endif
