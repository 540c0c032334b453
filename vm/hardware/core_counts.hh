// SPDX-License-Identifier: GPL-2.0-only
// Exact counts of what one core did. The performance counters and the ground truth read them.
#ifndef DRFQ_HARDWARE_CORE_COUNTS_HH
#define DRFQ_HARDWARE_CORE_COUNTS_HH

#include <array>
#include <cstdint>

namespace drfq::hardware {

enum class Quantity : unsigned {
  insns,      ///< instructions retired
  busy_ps,    ///< simulated time in which the core was not halted
  stall_ps,   ///< the part of busy_ps that the core waited for memory
  read_hit,   ///< demand reads of lines in the shared cache or on their way to it
  read_miss,  ///< demand reads that went to memory
  rfo_hit,    ///< the same for stores (requests for ownership)
  rfo_miss,
  prefetch_miss,    ///< lines that the prefetcher fetched from memory
  prefetch_own,     ///< the part of them that stores asked for
  streaming_store,  ///< lines that streaming stores wrote to memory
  write_back,       ///< dirty lines that the private cache evicted
  count
};

inline constexpr unsigned kQuantities = static_cast<unsigned>(Quantity::count);

struct CoreCounts {
  std::array<std::uint64_t, kQuantities> of{};

  std::uint64_t &operator[](Quantity q) { return of[static_cast<unsigned>(q)]; }
  std::uint64_t operator[](Quantity q) const { return of[static_cast<unsigned>(q)]; }

  /// Requests to the shared cache.
  std::uint64_t references() const {
    return (*this)[Quantity::read_hit] + (*this)[Quantity::rfo_hit] + misses();
  }
  /// Lines read from memory. Times kLineBytes this is the read traffic in bytes.
  std::uint64_t misses() const {
    return (*this)[Quantity::read_miss] + (*this)[Quantity::rfo_miss] +
           (*this)[Quantity::prefetch_miss];
  }

  CoreCounts &operator+=(const CoreCounts &o) {
    for (unsigned i = 0; i < kQuantities; i++) of[i] += o.of[i];
    return *this;
  }
  CoreCounts operator-(const CoreCounts &o) const {
    CoreCounts d;
    for (unsigned i = 0; i < kQuantities; i++) d.of[i] = of[i] - o.of[i];
    return d;
  }
};

/// One core's counts by privilege: ring[0] is the kernel, ring[1] user mode.
struct CountsByRing {
  CoreCounts ring[2];
};

}  // namespace drfq::hardware

#endif
