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
        group_bits_(log2(t.groups)),
        rank_shift_(log2(t.banks)),
        group_mask_(t.groups - 1),
        bank_mask_(t.banks / t.groups - 1),
        rank_mask_(t.ranks - 1),
        row_mask_(t.rows - 1) {
    const unsigned column_bits = log2(t.row_bytes / t.burst_bytes);
    const bool low_groups = t.map == AddressMap::row_bank_column_group;
    group_at_ = low_groups ? 0 : column_bits;
    bank_at_ = column_bits + group_bits_;
    rank_at_ = column_bits + rank_shift_;
    row_at_ = rank_at_ + log2(t.ranks);
    in_row_ = low_groups && group_bits_ != 0 ? 0 : (std::uint64_t{1} << column_bits) - 1;
  }

  std::uint64_t burst_of(std::uint64_t address) const { return address >> burst_; }

  /// Whether a burst has the place of the one before it. May be false although it has.
  bool same_place_as_previous(std::uint64_t burst) const { return (burst & in_row_) != 0; }

  Place decode(std::uint64_t burst) const {
    const auto field = [burst](unsigned at, std::uint32_t mask) {
      return static_cast<std::uint32_t>(burst >> at) & mask;
    };
    const std::uint32_t bank =
        field(bank_at_, bank_mask_) << group_bits_ | field(group_at_, group_mask_);
    return {field(row_at_, row_mask_),
            static_cast<std::uint16_t>(field(rank_at_, rank_mask_) << rank_shift_ | bank)};
  }

 private:
  static unsigned log2(unsigned v) {
    unsigned n = 0;
    while (v >>= 1) n++;
    return n;
  }

  unsigned burst_, group_bits_, rank_shift_;
  unsigned group_at_, bank_at_, rank_at_, row_at_;  // lowest bit of each field of a burst address
  std::uint64_t in_row_;  // the low bits that tell the bursts of a row apart
  std::uint32_t group_mask_, bank_mask_, rank_mask_, row_mask_;
};

}  // namespace drfq

#endif
