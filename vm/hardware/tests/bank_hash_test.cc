// SPDX-License-Identifier: GPL-2.0-only
#include "bank_hash.hh"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "model/address.hh"
#include "model/presets.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class BankHashOf : public testing::TestWithParam<Timing> {
 protected:
  Place place(std::uint64_t address) const {
    return decoder_.decode(decoder_.burst_of(hash_(address)));
  }
  const Timing t_ = GetParam();
  const BankHash hash_{t_, true};
  const AddressDecoder decoder_{t_};
};

TEST_P(BankHashOf, HashedAddressesKeepTheirRowAndAreOneToOne) {
  const BankHash off(t_, false);
  std::mt19937_64 random(1);
  for (unsigned i = 0; i < 10000; i++) {
    const std::uint64_t address = random() >> 24;
    EXPECT_EQ(off(address), address);
    EXPECT_EQ(place(address).row, decoder_.decode(decoder_.burst_of(address)).row);
    // The row is unchanged, so a second hash undoes the first.
    EXPECT_EQ(hash_(hash_(address)), address);
  }
}

TEST_P(BankHashOf, LinesOfOneRowStayInOneRow) {
  // Counts the distinct rows of a range before and after the hash.
  for (std::uint64_t base : {std::uint64_t{0}, 37 * kMiB, 515 * kMiB + 12345 * 64}) {
    std::set<std::pair<unsigned, unsigned>> before, after;
    for (std::uint64_t a = base; a < base + kMiB; a += t_.burst_bytes) {
      const Place plain = decoder_.decode(decoder_.burst_of(a)), hashed = place(a);
      before.insert({plain.bank, plain.row});
      after.insert({hashed.bank, hashed.row});
    }
    EXPECT_EQ(before.size(), after.size());
  }
}

TEST_P(BankHashOf, HugePagesStartInAllBanks) {
  std::set<unsigned> plain, hashed;
  for (std::uint64_t a = 0; a < 2048 * kMiB; a += 2 * kMiB) {
    plain.insert(decoder_.decode(decoder_.burst_of(a)).bank);
    hashed.insert(place(a).bank);
  }
  EXPECT_EQ(plain.size(), 1u);
  EXPECT_EQ(hashed.size(), t_.banks);
}

INSTANTIATE_TEST_SUITE_P(Presets, BankHashOf,
                         testing::Values(lpddr2_1066_x32(), ddr4_2400(), ddr5_4800()),
                         [](const auto &p) {
                           std::string name = p.param.name;
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace drfq::hardware
