// SPDX-License-Identifier: GPL-2.0-only
// A set of banks, a bit each.
#ifndef DRFQ_BANK_SET_HH
#define DRFQ_BANK_SET_HH

#include <array>
#include <cstdint>

namespace drfq {

/// The most banks (over all ranks) that a queue tells apart.
inline constexpr unsigned kBanksMax = 256;

class BankSet {
 public:
  /// banks: no member is as high.
  explicit BankSet(unsigned banks) : words_((banks + 63) / 64) {}

  void add(unsigned bank) { bits_[bank / 64] |= std::uint64_t{1} << bank % 64; }

  void remove(unsigned bank) { bits_[bank / 64] &= ~(std::uint64_t{1} << bank % 64); }

  bool holds(unsigned bank) const { return (bits_[bank / 64] >> bank % 64 & 1) != 0; }

  bool empty() const {
    std::uint64_t any = 0;
    for (std::uint64_t word : bits_) any |= word;
    return any == 0;
  }

  /// Calls f with every member.
  template <class F>
  void each(F f) const {
    unsigned word = 0;
    do {
      for (std::uint64_t left = bits_[word]; left != 0; left &= left - 1)
        f(word * 64 + static_cast<unsigned>(__builtin_ctzll(left)));
    } while (++word < words_);
  }

 private:
  std::array<std::uint64_t, kBanksMax / 64> bits_{};
  unsigned words_;
};

}  // namespace drfq

#endif
