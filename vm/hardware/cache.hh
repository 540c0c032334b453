// SPDX-License-Identifier: GPL-2.0-only
// Cache directories: which lines a cache holds. They model neither data nor time.
//
// Every access looks up the private cache, so its sets are arrays in the order of use. The shared
// cache is not inclusive: a private cache may hold a line that the shared one has evicted. Private
// caches are not coherent with each other; see docs/explanation/modelled-machine.md.
#ifndef DRFQ_HARDWARE_CACHE_HH
#define DRFQ_HARDWARE_CACHE_HH

#include <cstdint>
#include <vector>

#include "machine_description.hh"

namespace drfq::hardware {

/// A physical address divided by kLineBytes.
using Line = std::uint64_t;

class PrivateCache {
 public:
  explicit PrivateCache(const CacheConfig &s)
      : ways_(s.ways), mask_(s.sets() - 1), slots_(std::size_t{s.sets()} * s.ways) {}

  /// Looks up a line. A hit makes it the most recently used one; a store makes it dirty.
  bool hit(Line line, bool store) {
    std::uint64_t *set = &slots_[(line & mask_) * ways_];
    const std::uint64_t key = (line + 1) << 1;
    if ((set[0] & ~kDirty) == key) {
      set[0] |= store;
      return true;
    }
    for (unsigned i = 1; i < ways_; i++) {
      if ((set[i] & ~kDirty) != key) continue;
      const std::uint64_t found = set[i] | store;
      for (; i > 0; i--) set[i] = set[i - 1];
      set[0] = found;
      return true;
    }
    return false;
  }

  struct Victim {
    Line line = 0;
    bool dirty = false;
  };

  /// Inserts an absent line in the place of the least recently used one, which is returned.
  Victim fill(Line line, bool store) {
    std::uint64_t *set = &slots_[(line & mask_) * ways_];
    const std::uint64_t last = set[ways_ - 1];
    for (unsigned i = ways_ - 1; i > 0; i--) set[i] = set[i - 1];
    set[0] = (line + 1) << 1 | (store ? kDirty : 0);
    return {(last >> 1) - 1, (last & kDirty) != 0};
  }

  /// Removes the line. Returns whether it was dirty.
  bool flush(Line line) {
    std::uint64_t *set = &slots_[(line & mask_) * ways_];
    for (unsigned i = 0; i < ways_; i++) {
      if (set[i] >> 1 != line + 1) continue;
      const bool dirty = (set[i] & kDirty) != 0;
      for (; i + 1 < ways_; i++) set[i] = set[i + 1];
      set[ways_ - 1] = 0;
      return dirty;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kDirty = 1;

  unsigned ways_;
  Line mask_;
  std::vector<std::uint64_t> slots_;  // (line + 1) << 1 | dirty; 0: empty
};

class SharedCache {
 public:
  struct LineState {
    std::uint64_t used = 0;  ///< stamp of the last use
    std::uint16_t rmid = 0;  ///< of the core that brought it in
    Pid pid = 0;             ///< of the device's command that brought it in; 0: a core did
    bool dirty = false;
    bool in_flight = false;   ///< its data is still on the way from memory
    bool prefetched = false;  ///< and not asked for yet
  };
  struct Victim {
    Line line = 0;
    LineState state;
    bool valid = false;
  };

  SharedCache(const CacheConfig &s, unsigned rmids)
      : ways_(s.ways),
        mask_(s.sets() - 1),
        tags_(std::size_t{s.sets()} * s.ways),
        states_(tags_.size()),
        held_(rmids == 0 ? 1 : rmids) {}

  unsigned ways() const { return ways_; }
  /// A mask of all ways.
  std::uint32_t all_ways() const {
    return static_cast<std::uint32_t>((std::uint64_t{1} << ways_) - 1);
  }

  /// Looks up a line without counting it as a use. Null: it is absent.
  LineState *find(Line line) {
    const std::size_t base = (line & mask_) * ways_;
    for (unsigned i = 0; i < ways_; i++)
      if (tags_[base + i] == line + 1) return &states_[base + i];
    return nullptr;
  }

  void touch(LineState *m) { m->used = ++stamp_; }

  /// Inserts an absent line into one of the allowed ways: an empty one, else the least recently
  /// used. allowed: one bit per way, at least one set. *victim: the line that was evicted.
  LineState *fill(Line line, std::uint16_t rmid, std::uint32_t allowed, Victim *victim) {
    const std::size_t base = (line & mask_) * ways_;
    std::size_t at = base;
    std::uint64_t oldest = ~std::uint64_t{0};
    for (unsigned i = 0; i < ways_; i++) {
      if ((allowed >> i & 1) == 0) continue;
      // A line in flight is evicted only if all allowed ways are in flight.
      const std::uint64_t age =
          tags_[base + i] == 0
              ? 0
              : states_[base + i].used + (states_[base + i].in_flight ? kPinned : 0);
      if (age >= oldest) continue;
      oldest = age;
      at = base + i;
    }
    victim->valid = tags_[at] != 0;
    if (victim->valid) {
      victim->line = tags_[at] - 1;
      victim->state = states_[at];
      held_[victim->state.rmid]--;
    }
    tags_[at] = line + 1;
    states_[at] = LineState();
    states_[at].rmid = rmid;
    states_[at].used = ++stamp_;
    held_[rmid]++;
    return &states_[at];
  }

  /// Removes the line. Returns whether it was present and dirty.
  bool flush(Line line) {
    LineState *m = find(line);
    if (m == nullptr) return false;
    const bool dirty = m->dirty;
    held_[m->rmid]--;
    tags_[static_cast<std::size_t>(m - states_.data())] = 0;
    *m = LineState();
    return dirty;
  }

  /// Lines present that requests of this monitoring id inserted.
  std::uint64_t lines_held(std::uint16_t rmid) const { return held_[rmid]; }

 private:
  static constexpr std::uint64_t kPinned = std::uint64_t{1} << 62;

  unsigned ways_;
  Line mask_;
  std::vector<Line> tags_;  // line + 1; 0: empty
  std::vector<LineState> states_;
  std::vector<std::uint64_t> held_;
  std::uint64_t stamp_ = 0;
};

}  // namespace drfq::hardware

#endif
