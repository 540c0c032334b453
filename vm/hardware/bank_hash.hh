// SPDX-License-Identifier: GPL-2.0-only
// Which bank a row is in, as controllers of real hardware have it: the bank is
// not only the address bits above the columns, these are XORed with the row.
// Without it streams whose arrays lie a multiple of banks x row_bytes apart meet
// in one bank at every step, and close each other's rows.
//
// Zhang, Zhu, Zhang, "A permutation-based page interleaving scheme to reduce
// row-buffer conflicts and exploit data locality", MICRO 2000, take as many row
// bits as there are bank bits. Here all row bits are folded into them, as the
// functions found on present machines do (Pessl et al., DRAMA, USENIX Security
// 2016): arrays on huge pages differ in high bits only.
#ifndef DRFQ_HARDWARE_BANK_HASH_HH
#define DRFQ_HARDWARE_BANK_HASH_HH

#include "model/timing.hh"

namespace drfq::hardware {

/// From physical addresses to those that the controller sees. One-to-one; changes
/// nothing but the bank and its group, so what shares a row still does.
class BankHash {
 public:
  /// on: false leaves every address as it is.
  BankHash(const Timing &t, bool on)
      : low_{log2(t.burst_bytes), on && has_low_groups(t) ? log2(t.groups) : 0},
        high_{log2(t.row_bytes) + low_.bits, on ? log2(t.banks) - low_.bits : 0},
        row_at_(log2(t.row_bytes) + log2(t.banks) + log2(t.ranks)) {}

  std::uint64_t operator()(std::uint64_t address) const {
    const unsigned bits = low_.bits + high_.bits;
    if (bits == 0) return address;
    std::uint64_t fold = 0;
    for (std::uint64_t row = address >> row_at_; row != 0; row >>= bits) fold ^= row;
    address ^= (fold & mask(low_.bits)) << low_.at;
    return address ^ (fold >> low_.bits & mask(high_.bits)) << high_.at;
  }

 private:
  /// Bits of the address.
  struct Field {
    unsigned at, bits;
  };

  static bool has_low_groups(const Timing &t) { return t.map == AddressMap::row_bank_column_group; }
  static unsigned log2(unsigned v) {
    unsigned n = 0;
    while (v >>= 1) n++;
    return n;
  }
  static std::uint64_t mask(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }

  Field low_;   ///< bank groups below the columns, if the map has them there
  Field high_;  ///< the banks, or what is left of them
  unsigned row_at_;
};

}  // namespace drfq::hardware

#endif
