// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/owner_table.hh"

#include <gtest/gtest.h>

namespace drfq {
namespace {

TEST(OwnerTable, LabelsTheRequestsOfADeviceWithItsOwner) {
  OwnerTable t(2, {7});
  t.bind(0, 40);
  t.bind(1, 41);
  EXPECT_EQ(t.label_of(40).substream, 7u);
  EXPECT_EQ(t.label_of(40).core, Label::kNoCore);
  EXPECT_EQ(t.label_of(41).substream, 0u) << "no owner yet";
  EXPECT_EQ(t.write(8, 9), Access::ok);
  EXPECT_EQ(t.label_of(41).substream, 9u);
  EXPECT_EQ(t.label_of(40).substream, 7u);
  EXPECT_EQ(t.write(0, 0), Access::ok);
  EXPECT_EQ(t.label_of(40).substream, 0u) << "given up";
}

TEST(OwnerTable, LabelsNoRequestOfAnotherSender) {
  OwnerTable t(1, {7});
  EXPECT_EQ(t.label_of(0).substream, 0u) << "before its device has a requestor id";
  t.bind(0, 40);
  EXPECT_EQ(t.label_of(39).substream, 0u);
}

TEST(OwnerTable, HasARegisterOf8BytesForEachDevice) {
  OwnerTable t(3, {});
  EXPECT_EQ(t.bytes(), 24u);
  std::uint64_t value = 1;
  EXPECT_EQ(t.write(16, kPids - 1), Access::ok);
  EXPECT_EQ(t.read(16, &value), Access::ok);
  EXPECT_EQ(value, kPids - 1);
  EXPECT_EQ(t.read(4, &value), Access::bad_address);
  EXPECT_EQ(t.write(24, 2), Access::bad_address);
}

TEST(OwnerTable, RefusesAnIdThatTheControllerLacks) {
  OwnerTable t(1, {});
  std::uint64_t value = 1;
  EXPECT_EQ(t.write(0, kPids), Access::bad_value);
  EXPECT_EQ(t.read(0, &value), Access::ok);
  EXPECT_EQ(value, 0u);
}

}  // namespace
}  // namespace drfq
