// SPDX-License-Identifier: GPL-2.0-only
// From a physical address to a place in the DRAM.
#ifndef DRFQ_ADDRESS_HH
#define DRFQ_ADDRESS_HH

#include "timing.hh"

namespace drfq {

struct Place {
  std::uint32_t row;
  std::uint16_t bank;  ///< flat: rank * banks + bank; its group is bank % groups
};

/// Addresses beyond the capacity wrap.
class AddressDecoder {
 public:
  explicit AddressDecoder(const Timing &t)
      : burst_(log2(t.burst_bytes)),
        column_(log2(t.row_bytes / t.burst_bytes)),
        group_(log2(t.groups)),
        bank_(log2(t.banks / t.groups)),
        rank_(log2(t.ranks)),
        row_mask_(t.rows - 1),
        low_groups_(t.map == AddressMap::row_bank_column_group) {}

  std::uint64_t burst_of(std::uint64_t address) const { return address >> burst_; }

  Place decode(std::uint64_t burst) const {
    std::uint64_t a = burst;
    std::uint32_t bank = 0;
    if (low_groups_) {
      const std::uint32_t group = take(&a, group_);
      take(&a, column_);
      bank = take(&a, bank_) << group_ | group;
    } else {
      take(&a, column_);
      bank = take(&a, bank_ + group_);
    }
    const std::uint32_t rank = take(&a, rank_);
    return {static_cast<std::uint32_t>(a) & row_mask_,
            static_cast<std::uint16_t>(rank << (bank_ + group_) | bank)};
  }

 private:
  static unsigned log2(unsigned v) {
    unsigned n = 0;
    while (v >>= 1) n++;
    return n;
  }

  static std::uint32_t take(std::uint64_t *a, unsigned bits) {
    const std::uint64_t field = *a & ((std::uint64_t{1} << bits) - 1);
    *a >>= bits;
    return static_cast<std::uint32_t>(field);
  }

  unsigned burst_, column_, group_, bank_, rank_;
  std::uint32_t row_mask_;
  bool low_groups_;
};

}  // namespace drfq

#endif
