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
  explicit AddressDecoder(const Timing &t) : burst_(log2(t.burst_bytes)), row_mask_(t.rows - 1) {
    const unsigned column_bits = log2(t.row_bytes / t.burst_bytes);
    const bool low_groups = t.map == AddressMap::row_bank_column_group;
    low_bits_ = low_groups ? log2(t.groups) : 0;
    low_mask_ = (1u << low_bits_) - 1;
    bank_at_ = column_bits + low_bits_;
    bank_mask_ = (t.ranks * t.banks >> low_bits_) - 1;
    row_at_ = column_bits + log2(t.ranks * t.banks);
    in_row_ = low_bits_ != 0 ? 0 : (std::uint64_t{1} << column_bits) - 1;
  }

  std::uint64_t burst_of(std::uint64_t address) const { return address >> burst_; }

  /// Whether a burst has the place of the one before it. May be false although it has.
  bool same_place_as_previous(std::uint64_t burst) const { return (burst & in_row_) != 0; }

  Place decode(std::uint64_t burst) const {
    const std::uint32_t bank = static_cast<std::uint32_t>(burst >> bank_at_) & bank_mask_;
    const std::uint32_t low = static_cast<std::uint32_t>(burst) & low_mask_;
    return {static_cast<std::uint32_t>(burst >> row_at_) & row_mask_,
            static_cast<std::uint16_t>(bank << low_bits_ | low)};
  }

 private:
  static unsigned log2(unsigned v) {
    unsigned n = 0;
    while (v >>= 1) n++;
    return n;
  }

  unsigned burst_;             // bits of an address within a burst
  unsigned low_bits_;          // of the bank, below the column: its group
  unsigned bank_at_, row_at_;  // lowest bit of a field of a burst address
  std::uint64_t in_row_;       // the low bits that tell the bursts of a row apart
  std::uint32_t low_mask_, bank_mask_, row_mask_;
};

}  // namespace drfq

#endif
