// SPDX-License-Identifier: GPL-2.0-only
// The contents of a machine description, vm/machines/*.toml.
// docs/reference/machine-description.md lists its keys for users.
#ifndef DRFQ_HARDWARE_MACHINE_DESCRIPTION_HH
#define DRFQ_HARDWARE_MACHINE_DESCRIPTION_HH

#include <cstdint>
#include <string>

#include "model/memory.hh"

namespace drfq::hardware {

inline constexpr unsigned kMachineCoresMax = 64;
inline constexpr unsigned kLineBytes = 64;

/// A set-associative cache of 64-byte lines that evicts the least recently used one.
struct CacheConfig {
  std::uint64_t bytes = 0;
  unsigned ways = 0;
  Ps hit = 0;  ///< time that a hit of the shared cache costs the core, beyond its instruction

  unsigned sets() const {
    return static_cast<unsigned>(bytes / (std::uint64_t{ways} * kLineBytes));
  }
};

/// The prefetcher of each core. It fetches into the shared cache and learns from the core's
/// private-cache misses.
struct PrefetcherConfig {
  enum class Kind : std::uint8_t { none, next_line, stride };
  Kind kind = Kind::none;
  unsigned degree = 1;       ///< lines ahead
  unsigned streams = 16;     ///< pages that one core's prefetcher tracks (stride only)
  unsigned outstanding = 4;  ///< prefetches of one core that may be in flight
};

/// How strongly a throttling value acts (rdt.hh).
enum class ThrottleCurve : std::uint8_t { linear, mt2, plateau };

/// Resource Director Technology. A count of 0 means that the feature is absent.
struct RdtConfig {
  unsigned rmids = 0;               ///< monitoring ids; 0: no monitoring
  unsigned upscale = 64;            ///< bytes per count of occupancy and bandwidth
  unsigned counter_bits = 24;       ///< width of the bandwidth counters, 24..62
  std::uint64_t counter_start = 0;  ///< what the bandwidth counters count from
  unsigned l3_closes = 0;           ///< classes of cache allocation; 0: none
  unsigned cbm_bits = 0;            ///< bits of a capacity mask; divides the ways
  unsigned mba_closes = 0;          ///< classes of bandwidth allocation; 0: none
  unsigned mba_max_delay = 90;      ///< percent
  unsigned mba_step = 10;           ///< percent; a delay is rounded down to a multiple
  ThrottleCurve throttle = ThrottleCurve::linear;
};

/// Architectural performance monitoring. version 0: none.
struct PmuConfig {
  unsigned version = 0;
  unsigned counters = 0;  ///< programmable, per core
  unsigned fixed = 0;     ///< fixed-function; 3 if there is a PMU
  unsigned bits = 48;     ///< width of each counter
};

/// A storage device, an NVMe controller. Times are already multiplied by the scale.
struct StorageConfig {
  std::string file;               ///< raw image, absolute; empty: zeros that end with the machine
  std::uint64_t bytes = 0;        ///< size without a file
  std::uint64_t fs_per_byte = 0;  ///< of the device's link
  Ps latency = 0;                 ///< of a command, without its transfer
  unsigned queues = 0;            ///< pairs of I/O queues; 0: the machine has no such device
  unsigned outstanding = 0;       ///< lines under way
  unsigned ddio_ways = 0;         ///< ways of the LLC that the device fills; 0: it writes to memory
};

struct MachineDescription {
  std::string name;
  std::string about;
  unsigned cores = 4;
  unsigned cpu_model = 0;  ///< of family 6, as CPUID reports it; 0: the emulator's own
  std::uint64_t clock_hz = 0;
  std::uint64_t tsc_hz = 1'000'000'000;
  double insns_per_cycle = 1;     ///< while every access hits the private cache
  unsigned window = 0;            ///< instructions that may retire past a miss; 0: a miss blocks
  unsigned misses = 1;            ///< misses of one core in flight, when there is a window
  bool streaming_stores = false;  ///< non-temporal stores bypass the caches
  bool mailbox = true;            ///< the controller takes labels from memory (pci_registers.hh)
  unsigned scale = 1;             ///< factor on every time of the memory
  Ps quantum = 20 * kPsPerUs;     ///< how far one core's clock may lead another's
  CacheConfig l1, llc;
  PrefetcherConfig prefetch;
  RdtConfig rdt;
  PmuConfig pmu;
  StorageConfig storage;
  MemoryOptions memory;   ///< times are already multiplied by scale
  bool bank_hash = true;  ///< XOR row bits into the bank number (bank_hash.hh)

  /// Time of one instruction in femtoseconds, so that odd clocks do not drift.
  std::uint64_t fs_per_insn() const;
  /// Peak rate of the data bus.
  double peak_bytes_per_ns() const { return memory.timing.bytes_per_ns(); }
};

/// Reads a description. file: its name in messages. Throws toml::Error, whose what() gives file,
/// line and reason.
MachineDescription load_machine_description(const std::string &file, const std::string &text);

}  // namespace drfq::hardware

#endif
