// SPDX-License-Identifier: GPL-2.0-only
// The bank hash of real memory controllers, which XOR the bank number with bits of the row number.
// Without it two streams whose arrays lie a multiple of banks x row_bytes apart always access the
// same bank, and close each other's rows.
//
// The scheme is that of Zhang, Zhu and Zhang, "A permutation-based page interleaving scheme to
// reduce row-buffer conflicts and exploit data locality", MICRO 2000. They use as many row bits as
// there are bank bits. Arrays on huge pages differ only in high bits, so this hash folds all row
// bits into the bank. Current processors do so, too (Pessl et al., "DRAMA", USENIX Security 2016).
#ifndef DRFQ_HARDWARE_BANK_HASH_HH
#define DRFQ_HARDWARE_BANK_HASH_HH

#include "model/timing.hh"

namespace drfq::hardware {

/// Maps physical addresses to the controller's addresses, one to one. It changes only the bank and
/// bank group, so lines of one row stay in one row.
class BankHash {
 public:
  /// on: false: addresses stay unchanged.
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
  /// A bit field of the address.
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
