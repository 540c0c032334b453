// SPDX-License-Identifier: GPL-2.0-only
// Predicts the lines that a core will use next. It learns from private-cache misses that also miss
// the shared cache, or hit a prefetched line for the first time. Addresses are physical, so it
// never crosses a 4 KiB page.
#ifndef DRFQ_HARDWARE_PREFETCHER_HH
#define DRFQ_HARDWARE_PREFETCHER_HH

#include <array>
#include <vector>

#include "cache.hh"

namespace drfq::hardware {

class Prefetcher {
 public:
  static constexpr unsigned kDegreeMax = 32;
  static constexpr unsigned kPageLines = 4096 / kLineBytes;

  struct Wanted {
    std::array<Line, kDegreeMax> lines;
    unsigned count = 0;
  };

  explicit Prefetcher(const PrefetcherConfig &s) : shape_(s), streams_(s.streams) {}

  /// Learns from a use of this line and returns the lines to fetch.
  Wanted train(Line line) {
    switch (shape_.kind) {
      case PrefetcherConfig::Kind::none:
        break;
      case PrefetcherConfig::Kind::next_line:
        return ahead(line, 1);
      case PrefetcherConfig::Kind::stride:
        return stride(line);
    }
    return {};
  }

 private:
  /// The accesses to one page: the last line and its distance from the one before.
  struct Stream {
    Line page = ~Line{0};
    Line last = 0;
    std::int64_t step = 0;
    bool sure = false;  ///< the last two steps were equal
    std::uint64_t used = 0;
  };

  Wanted ahead(Line line, std::int64_t step) const {
    Wanted w;
    for (unsigned i = 1; i <= shape_.degree; i++) {
      const Line next = line + static_cast<Line>(step * static_cast<std::int64_t>(i));
      if (next / kPageLines != line / kPageLines) break;
      w.lines[w.count++] = next;
    }
    return w;
  }

  Wanted stride(Line line) {
    Stream *s = &streams_[0];
    for (Stream &t : streams_) {
      if (t.page == line / kPageLines) {
        s = &t;
        break;
      }
      if (t.used < s->used) s = &t;
    }
    s->used = ++stamp_;
    if (s->page != line / kPageLines) {
      s->page = line / kPageLines;
      s->last = line;
      s->step = 0;
      s->sure = false;
      return {};
    }
    const std::int64_t step = static_cast<std::int64_t>(line - s->last);
    if (step == 0) return {};
    s->sure = step == s->step;
    s->step = step;
    s->last = line;
    return s->sure ? ahead(line, step) : Wanted{};
  }

  PrefetcherConfig shape_;
  std::vector<Stream> streams_;
  std::uint64_t stamp_ = 0;
};

}  // namespace drfq::hardware

#endif
