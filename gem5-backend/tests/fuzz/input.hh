// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>

namespace drfq {

/// The bytes of a fuzzer's input, followed by zeros.
class Input {
 public:
  Input(const unsigned char *data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  /// Bytes that were taken.
  std::size_t position() const { return at_; }
  /// The next 0 to 8 bytes as a little-endian number.
  std::uint64_t take(unsigned bytes) {
    std::uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
      v |= std::uint64_t{at_ < size_ ? data_[at_++] : 0u} << (8 * i);
    return v;
  }
  /// A value of any size, small ones more often.
  std::uint64_t any() { return take(1u << (take(1) % 4)); }
  std::uint32_t any32() { return static_cast<std::uint32_t>(any()); }

 private:
  const unsigned char *data_;
  std::size_t size_, at_ = 0;
};

}  // namespace drfq
