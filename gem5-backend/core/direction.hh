// SPDX-License-Identifier: GPL-2.0-only
// Which way the data bus goes next: by virtual time (thesis 4.4), or by the
// write-drain watermarks of the usual FR-FCFS controller.
#ifndef DRFQ_DIRECTION_HH
#define DRFQ_DIRECTION_HH

#include <algorithm>

#include "queue.hh"

namespace drfq {

/// Shortest runs of bursts of one direction, while its queue has entries.
struct Runs {
  unsigned tie = 64;  ///< while virtual times tie
  unsigned any = 0;   ///< whatever the virtual times; 0: the thesis
};

/// The queue with the lower of two virtual times, in the thesis those of the heads. The
/// thesis does not say what happens on a tie: here the bus goes to the older head. run: bursts
/// served in the direction now; the bus does not turn before `shortest`. At least one queue has
/// entries.
inline Dir lower_of(const Queue &reads, VTime read, const Queue &writes, VTime write, Dir now,
                    std::uint64_t run, const Runs &shortest) {
  if (writes.empty()) return Dir::read;
  if (reads.empty()) return Dir::write;
  if (run < shortest.any) return now;
  if (read != write) return read < write ? Dir::read : Dir::write;
  if (run < shortest.tie) return now;
  return reads.head().seq < writes.head().seq ? Dir::read : Dir::write;
}

/// The baseline's rule: reads are served until many writes wait, then a run of
/// writes is drained. The fractions and both minima are gem5's defaults.
struct WriteDrain {
  unsigned high_percent = 85;  ///< of the write queue: drain even while reads wait
  unsigned low_percent = 50;   ///< of the write queue: drain when no read waits
  unsigned min_writes = 16;    ///< bursts of one drain, and the hysteresis below low
  unsigned min_reads = 16;     ///< bursts read before a drain, unless no read waits

  unsigned high(const Queue &writes) const { return writes.capacity() * high_percent / 100; }
  unsigned low(const Queue &writes) const { return writes.capacity() * low_percent / 100; }

  /// Direction of the next burst, decided right after a burst was served. served: that
  /// burst's direction; run: bursts served in this direction since the bus turned.
  Dir after(const Queue &reads, const Queue &writes, Dir served, std::uint64_t run) const {
    if (served == Dir::read) {
      const bool enough = run >= min_reads || reads.empty();
      return enough && writes.size() > high(writes) ? Dir::write : Dir::read;
    }
    if (writes.empty() || writes.size() + min_writes < low(writes)) return Dir::read;
    return !reads.empty() && run >= min_writes ? Dir::read : Dir::write;
  }

  /// The same when the bus is free. decided: what after() said last.
  Dir next(const Queue &reads, const Queue &writes, Dir decided) const {
    return reads.empty() && writes.size() > low(writes) ? Dir::write : decided;
  }

  /// Direction of the next burst while virtual times do not decide: the baseline's watermarks tell
  /// when writes must be served, and then the older head is next. tie: as in Runs. refused: a write
  /// was, since one was served; so as many wait as may. A write waits.
  Dir batch(const Queue &reads, const Queue &writes, Dir now, std::uint64_t run, unsigned tie,
            bool refused) const {
    if (now == Dir::write && run < std::min(tie, min_writes)) return Dir::write;
    if (reads.empty()) {
      const unsigned more = now == Dir::write ? min_writes : 0;
      const bool enough = writes.size() + more > low(writes);
      return refused || enough ? Dir::write : Dir::read;
    }
    if (now == Dir::read && run < tie) return Dir::read;
    const bool full = refused || writes.size() > high(writes);
    return full && writes.head().seq < reads.head().seq ? Dir::write : Dir::read;
  }
};

}  // namespace drfq

#endif
