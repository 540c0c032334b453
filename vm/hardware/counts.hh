// SPDX-License-Identifier: GPL-2.0-only
// What a core did, counted without error: the source of its performance
// counters and of the truth report.
#ifndef DRFQ_MACHINE_COUNTS_HH
#define DRFQ_MACHINE_COUNTS_HH

#include <array>
#include <cstdint>

namespace drfq::machine {

enum class Source : unsigned {
  insns,      ///< instructions retired
  busy_ps,    ///< time in which the core did not sleep
  stall_ps,   ///< the part of it that misses cost
  read_hit,   ///< demand reads that the shared cache had, or had asked for
  read_miss,  ///< and had not
  own_hit,    ///< the same for ownership (stores)
  own_miss,
  prefetch_miss,  ///< lines that the prefetcher brought
  write_back,     ///< dirty lines that left the private cache
  memory_write,   ///< dirty lines that left the shared cache on its account
  count
};

inline constexpr unsigned kSources = static_cast<unsigned>(Source::count);

struct Counts {
  std::array<std::uint64_t, kSources> of{};

  std::uint64_t &operator[](Source s) { return of[static_cast<unsigned>(s)]; }
  std::uint64_t operator[](Source s) const { return of[static_cast<unsigned>(s)]; }

  /// Requests to the shared cache.
  std::uint64_t references() const {
    return (*this)[Source::read_hit] + (*this)[Source::own_hit] + misses();
  }
  /// Lines that memory had to bring: times kLineBytes, the read traffic.
  std::uint64_t misses() const {
    return (*this)[Source::read_miss] + (*this)[Source::own_miss] + (*this)[Source::prefetch_miss];
  }

  Counts &operator+=(const Counts &o) {
    for (unsigned i = 0; i < kSources; i++) of[i] += o.of[i];
    return *this;
  }
  Counts operator-(const Counts &o) const {
    Counts d;
    for (unsigned i = 0; i < kSources; i++) d.of[i] = of[i] - o.of[i];
    return d;
  }
};

}  // namespace drfq::machine

#endif
