// SPDX-License-Identifier: GPL-2.0-only
// A core's write-combining buffers: lines that streaming stores have written in part. A line leaves
// its buffer once it is whole, or when a newer one needs the place.
#ifndef DRFQ_HARDWARE_COMBINING_BUFFERS_HH
#define DRFQ_HARDWARE_COMBINING_BUFFERS_HH

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cache.hh"

namespace drfq::hardware {

class CombiningBuffers {
 public:
  CombiningBuffers() { buffers_.reserve(kCount); }

  /// Stores a part of a line. Returns whether the line was in no buffer.
  bool store(Line line, std::uint64_t offset, std::uint64_t bytes) {
    auto at = find(line);
    const bool is_new = at == buffers_.end();
    if (is_new) {
      if (buffers_.size() == kCount) buffers_.erase(buffers_.begin());
      buffers_.push_back({line, 0});
      at = buffers_.end() - 1;
    }
    at->written |= (bytes < kLineBytes ? (std::uint64_t{1} << bytes) - 1 : kWhole) << offset;
    if (at->written == kWhole) buffers_.erase(at);
    return is_new;
  }

  /// Takes the line out of its buffer, if it is in one.
  void drop(Line line) {
    const auto at = find(line);
    if (at != buffers_.end()) buffers_.erase(at);
  }

 private:
  struct Buffer {
    Line line;
    std::uint64_t written;  ///< a bit for each byte
  };
  static_assert(kLineBytes == 64, "a bit for each byte");
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  /// As many as the line fill buffers of Intel's cores since Nehalem (Intel's optimization manual).
  static constexpr std::size_t kCount = 10;

  std::vector<Buffer>::iterator find(Line line) {
    return std::find_if(buffers_.begin(), buffers_.end(),
                        [line](const Buffer &b) { return b.line == line; });
  }

  std::vector<Buffer> buffers_;  // oldest first
};

}  // namespace drfq::hardware

#endif
