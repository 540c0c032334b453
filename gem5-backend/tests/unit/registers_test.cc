// SPDX-License-Identifier: GPL-2.0-only
#include "core/attribution.hh"
#include "core/registers.hh"

#include <gtest/gtest.h>

namespace drfq {
namespace {

std::uint64_t read(RegisterFile *r, std::uint64_t at) {
  std::uint64_t v = 1;
  EXPECT_EQ(r->read(at, &v), Access::ok);
  return v;
}

TEST(Registers, IdentityTellsWhatIsThere) {
  RegisterFile r(6);
  EXPECT_EQ(read(&r, mmio::kId), mmio::kIdValue);
  EXPECT_EQ(read(&r, mmio::kVersion), 1u);
  EXPECT_EQ(read(&r, mmio::kPids), 8192u);
  EXPECT_EQ(read(&r, mmio::kCores), 6u);
}

TEST(Registers, TrafficIsClearedByAReadAndNotByAPeek) {
  RegisterFile r(4);
  r.count(77, 64);
  r.count(77, 128);
  r.count(78, 5);
  EXPECT_EQ(read(&r, mmio::kTrafficPeek + 77 * 8), 192u);
  std::uint64_t v = 0;
  EXPECT_EQ(r.peek(mmio::kTraffic + 77 * 8, &v), Access::ok);
  EXPECT_EQ(v, 192u);
  EXPECT_EQ(read(&r, mmio::kTraffic + 77 * 8), 192u);
  EXPECT_EQ(read(&r, mmio::kTraffic + 77 * 8), 0u);
  EXPECT_EQ(read(&r, mmio::kTraffic + 78 * 8), 5u);
}

TEST(Registers, VirtualTimesAndPidsReadBackAsWritten) {
  RegisterFile r(4);
  EXPECT_EQ(r.write(mmio::kVtimePid + 8191 * 8, ~0ull), Access::ok);
  EXPECT_EQ(r.write(mmio::kVtimeCore + 3 * 8, 9), Access::ok);
  EXPECT_EQ(r.write(mmio::kPidCore + 3 * 8, 8191), Access::ok);
  EXPECT_EQ(read(&r, mmio::kVtimePid + 8191 * 8), ~0ull);
  EXPECT_EQ(read(&r, mmio::kVtimeCore + 3 * 8), 9u);
  EXPECT_EQ(read(&r, mmio::kPidCore + 3 * 8), 8191u);
}

TEST(Registers, BadAccessesSayWhyAndChangeNothing) {
  RegisterFile r(4);
  std::uint64_t v = 1;
  for (std::uint64_t at : {mmio::kVtimeCore + 4 * 8, mmio::kPidCore + 4 * 8, mmio::kTraffic + 4,
                           mmio::kBytes, std::uint64_t{0x20}, ~std::uint64_t{7}}) {
    EXPECT_EQ(r.read(at, &v), Access::bad_address) << at;
    EXPECT_EQ(v, 0u);
    EXPECT_EQ(r.write(at, 1), Access::bad_address) << at;
  }
  for (std::uint64_t at : {mmio::kId, mmio::kTraffic, mmio::kTrafficPeek, mmio::kVtimePid})
    EXPECT_EQ(r.write(at, 1), Access::read_only) << at;
  EXPECT_EQ(r.write(mmio::kPidCore, kPids), Access::bad_value);
  EXPECT_EQ(r.pid_core(0), 0u);
  EXPECT_EQ(r.vtime_pid(0), 0u);
}

TEST(Registers, CoresAreClampedToTheMap) {
  EXPECT_EQ(RegisterFile(0).cores(), 1u);
  RegisterFile r(1u << 20);
  EXPECT_EQ(r.cores(), kCoresMax);
  EXPECT_EQ(r.write(mmio::kVtimeCore + (kCoresMax - 1) * 8, 1), Access::ok);
  EXPECT_EQ(r.pid_core(0), 0u) << "the register groups overlap";
}

TEST(Attribution, ACoresPacketTakesTheCoresRegisters) {
  RegisterFile r(2);
  r.write(mmio::kPidCore + 8, 40);
  r.write(mmio::kVtimeCore + 8, 7);
  r.write(mmio::kVtimePid + 40 * 8, 99);
  const Attribution o = attribute(r, Label::of_core(1), 3);
  EXPECT_EQ(o.pid, 40u);
  EXPECT_EQ(o.vtime, 7u);
}

TEST(Attribution, ADevicesPacketTakesThePidsRegister) {
  RegisterFile r(2);
  r.write(mmio::kVtimePid + 40 * 8, 99);
  const Attribution o = attribute(r, Label::of_substream(40), 3);
  EXPECT_EQ(o.pid, 40u);
  EXPECT_EQ(o.vtime, 99u);
}

TEST(Attribution, AValidSubstreamDecidesBeforeTheCore) {
  RegisterFile r(1);
  r.write(mmio::kPidCore, 3);
  EXPECT_EQ(attribute(r, {0, 40}, 3).pid, 40u);
}

TEST(Attribution, WithoutALabelAPacketHasVirtualTimeZero) {
  RegisterFile r(2);
  for (const Label &l : {Label{}, Label::of_substream(0)}) {
    const Attribution o = attribute(r, l, 3);
    EXPECT_EQ(o.pid, 0u);
    EXPECT_EQ(o.vtime, 0u);
  }
}

TEST(Attribution, ACoreWithoutAProcessHasItsVirtualTimeAndNoOwner) {
  RegisterFile r(2);
  r.write(mmio::kVtimeCore, 5);
  const Attribution o = attribute(r, Label::of_core(0), 3);
  EXPECT_EQ(o.pid, 0u);
  EXPECT_EQ(o.vtime, 5u);
}

TEST(Attribution, TheLowestLatelyForgetsAfterTwoTimes256Packets) {
  LowestLately l;
  EXPECT_EQ(l.get(), 0u);
  l.came(4);
  for (int i = 0; i < 511; i++) {
    l.came(7);
    EXPECT_EQ(l.get(), i < 510 ? 4u : 7u) << i;
  }
}

TEST(Attribution, WhatWasNeverWrittenHasTheVirtualTimeForTheUnknown) {
  RegisterFile r(2);
  r.write(mmio::kPidCore, 40);
  EXPECT_EQ(attribute(r, Label::of_core(0), 3).pid, 40u);
  EXPECT_EQ(attribute(r, Label::of_core(0), 3).vtime, 3u);
  EXPECT_EQ(attribute(r, Label::of_substream(41), 3).vtime, 3u);
  r.write(mmio::kVtimeCore, 0);
  EXPECT_EQ(attribute(r, Label::of_core(0), 3).vtime, 0u) << "0 was written";
}

TEST(Attribution, IdsOutsideTheRegistersShareOne) {
  RegisterFile r(2);
  for (const Label &l : {Label::of_core(2), Label::of_substream(kPids)}) {
    const Attribution o = attribute(r, l, 3);
    EXPECT_EQ(o.pid, kSharedPid);
    EXPECT_EQ(o.vtime, 3u);
  }
  r.write(mmio::kVtimePid + 8 * kSharedPid, 9);
  EXPECT_EQ(attribute(r, Label::of_substream(kPids), 3).vtime, 9u);
}

TEST(SeveralChannels, WhatIsWrittenToOneGoesToTheOthersAndBytesAddUp) {
  RegisterFile first(4), other(4);
  EXPECT_EQ(first.write(mmio::kVtimePid + 8 * 5, 7), Access::ok);
  EXPECT_EQ(first.write(mmio::kPidCore + 8 * 2, 5), Access::ok);
  first.count(5, 100);
  other.count(5, 30);
  other.follow(first);
  EXPECT_EQ(other.vtime_pid(5), 7u);
  EXPECT_TRUE(other.knows_pid(5));
  EXPECT_FALSE(other.knows_pid(6));
  EXPECT_EQ(other.pid_core(2), 5u);
  EXPECT_EQ(other.traffic(5), 30u);
  first.take_traffic(&other);
  EXPECT_EQ(first.traffic(5), 130u);
  EXPECT_EQ(other.traffic(5), 0u);
}

TEST(SeveralChannels, OnlyTheTrafficRegistersCount) {
  EXPECT_TRUE(RegisterFile::counts(mmio::kTraffic));
  EXPECT_TRUE(RegisterFile::counts(mmio::kTrafficPeek + 8 * (kPids - 1)));
  EXPECT_FALSE(RegisterFile::counts(mmio::kVtimePid));
  EXPECT_FALSE(RegisterFile::counts(mmio::kId));
}

}  // namespace
}  // namespace drfq
