// SPDX-License-Identifier: GPL-2.0-only
// Compares the cache directories with simple reference models, and tests the prefetcher.
#include "cache.hh"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>

#include "prefetcher.hh"

namespace drfq::hardware {
namespace {

/// A cache whose sets are lists in the order of use.
class Reference {
 public:
  Reference(unsigned sets, unsigned ways) : sets_(sets), ways_(ways) {}

  bool hit(Line line, bool store) {
    std::list<Entry> &set = of_[line % sets_];
    for (auto i = set.begin(); i != set.end(); ++i) {
      if (i->line != line) continue;
      i->dirty = i->dirty || store;
      set.splice(set.begin(), set, i);
      return true;
    }
    return false;
  }

  /// Returns the evicted line and whether it is dirty; {0, false}: none.
  std::pair<Line, bool> fill(Line line, bool store) {
    std::list<Entry> &set = of_[line % sets_];
    std::pair<Line, bool> out{0, false};
    if (set.size() == ways_) {
      out = {set.back().line, set.back().dirty};
      set.pop_back();
    }
    set.push_front({line, store});
    return out;
  }

  bool flush(Line line) {
    std::list<Entry> &set = of_[line % sets_];
    for (auto i = set.begin(); i != set.end(); ++i) {
      if (i->line != line) continue;
      const bool dirty = i->dirty;
      set.erase(i);
      return dirty;
    }
    return false;
  }

 private:
  struct Entry {
    Line line;
    bool dirty;
  };
  unsigned sets_, ways_;
  std::map<Line, std::list<Entry>> of_;
};

TEST(PrivateCache, EvictsTheLeastRecentlyUsedLine) {
  for (unsigned ways : {1u, 2u, 4u, 8u}) {
    PrivateCache cache({16 * ways * kLineBytes, ways, 0});
    Reference model(16, ways);
    std::mt19937 rng(ways);
    for (int i = 0; i < 50000; i++) {
      const Line line = rng() % (40 * ways);
      const bool store = rng() % 3 == 0;
      if (rng() % 50 == 0) {
        ASSERT_EQ(cache.flush(line), model.flush(line));
        continue;
      }
      const bool hit = cache.hit(line, store);
      ASSERT_EQ(hit, model.hit(line, store));
      if (hit) continue;
      const PrivateCache::Victim v = cache.fill(line, store);
      const auto [gone, dirty] = model.fill(line, store);
      ASSERT_EQ(v.dirty, dirty);
      if (dirty) {
        ASSERT_EQ(v.line, gone);
      }
    }
  }
}

TEST(SharedCache, EvictsTheLeastRecentlyUsedLineAndCountsLinesByRmid) {
  SharedCache cache({8 * 4 * kLineBytes, 4, 0}, 3);
  Reference model(8, 4);
  std::map<Line, std::uint16_t> owner;
  std::mt19937 rng(7);
  for (int i = 0; i < 50000; i++) {
    const Line line = rng() % 80;
    SharedCache::LineState *m = cache.find(line);
    ASSERT_EQ(m != nullptr, model.hit(line, false));
    if (m != nullptr) {
      cache.touch(m);
    } else {
      const std::uint16_t rmid = rng() % 3;
      SharedCache::Victim v;
      cache.fill(line, rmid, cache.all_ways(), &v);
      const Line gone = model.fill(line, false).first;
      if (v.valid) {
        ASSERT_EQ(v.line, gone);
        ASSERT_EQ(v.state.rmid, owner[gone]);
        owner.erase(gone);
      }
      owner[line] = rmid;
    }
    std::uint64_t held[3] = {0, 0, 0};
    for (const auto &o : owner) held[o.second]++;
    for (std::uint16_t r = 0; r < 3; r++) ASSERT_EQ(cache.lines_held(r), held[r]);
  }
}

TEST(SharedCache, AFillUsesOnlyTheAllowedWays) {
  SharedCache cache({4 * 8 * kLineBytes, 8, 0}, 2);
  SharedCache::Victim v;
  for (Line l = 0; l < 16; l++) cache.fill(l, 0, 0x0f, &v);  // half of every set
  std::mt19937 rng(1);
  for (int i = 0; i < 10000; i++) {
    const Line line = 1000 + rng() % 500;
    if (SharedCache::LineState *m = cache.find(line))
      cache.touch(m);
    else
      cache.fill(line, 1, 0xf0, &v);
  }
  EXPECT_EQ(cache.lines_held(0), 16u);
  for (Line l = 0; l < 16; l++) EXPECT_NE(cache.find(l), nullptr) << l;
  EXPECT_EQ(cache.lines_held(1), 16u);
}

TEST(SharedCache, ALineInFlightIsNotEvicted) {
  SharedCache cache({2 * 2 * kLineBytes, 2, 0}, 1);
  SharedCache::Victim v;
  cache.fill(0, 0, 3, &v)->in_flight = true;
  cache.fill(2, 0, 3, &v);
  cache.fill(4, 0, 3, &v);
  EXPECT_EQ(v.line, 2u);
  EXPECT_NE(cache.find(0), nullptr);
}

TEST(Prefetcher, NextLinePrefetchesStayInThePage) {
  Prefetcher p({PrefetcherConfig::Kind::next_line, 4, 16, 8});
  EXPECT_EQ(p.train(0).count, 4u);
  EXPECT_EQ(p.train(0).lines[3], 4u);
  EXPECT_EQ(p.train(61).count, 2u);
  EXPECT_EQ(p.train(63).count, 0u);
}

TEST(Prefetcher, AStrideIsPrefetchedAfterTwoEqualSteps) {
  Prefetcher p({PrefetcherConfig::Kind::stride, 2, 4, 8});
  EXPECT_EQ(p.train(10).count, 0u);
  EXPECT_EQ(p.train(13).count, 0u);
  const Prefetcher::Wanted w = p.train(16);
  ASSERT_EQ(w.count, 2u);
  EXPECT_EQ(w.lines[0], 19u);
  EXPECT_EQ(w.lines[1], 22u);
  EXPECT_EQ(p.train(20).count, 0u) << "another step";
}

TEST(Prefetcher, StridesAreFoundDownwardsAndInInterleavedStreams) {
  Prefetcher p({PrefetcherConfig::Kind::stride, 1, 2, 8});
  for (Line i = 0; i < 2; i++) {
    p.train(63 - i);
    p.train(128 + 2 * i);
  }
  EXPECT_EQ(p.train(61).lines[0], 60u);
  EXPECT_EQ(p.train(132).lines[0], 134u);
}

}  // namespace
}  // namespace drfq::hardware
