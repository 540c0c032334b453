// SPDX-License-Identifier: GPL-2.0-only
// The local APIC's timer and the destinations of its interrupt commands.
#include "qemu-plugin/apic.hh"

#include <gtest/gtest.h>

#include <utility>

#include "qemu-plugin/apic_timer.hh"

namespace drfq::plugin {
namespace {

TEST(ApicTimer, AOneShotTimerFiresOnceAfterItsDividedTicks) {
  ApicTimer t;
  EXPECT_EQ(t.due(), kNever);
  t.write_lvt(0xec);
  t.write_divide(0xb);  // divide by 1
  t.start(100, 5);
  EXPECT_EQ(t.due(), 5 + 100 * ApicTimer::kTick);
  EXPECT_TRUE(t.fire());
  EXPECT_EQ(t.due(), kNever) << "one shot";
  for (const auto &[code, by] : {std::pair{0u, 2u},
                                 {1u, 4u},
                                 {2u, 8u},
                                 {3u, 16u},
                                 {8u, 32u},
                                 {9u, 64u},
                                 {10u, 128u},
                                 {11u, 1u}}) {
    t.write_divide(code);
    t.start(10, 0);
    EXPECT_EQ(t.due(), 10 * by * ApicTimer::kTick) << code;
  }
  t.start(0, 7);
  EXPECT_EQ(t.due(), kNever) << "a count of 0 stops it";
}

TEST(ApicTimer, APeriodicTimerRepeatsAndAMaskedOneDeliversNothing) {
  ApicTimer t;
  t.write_divide(0xb);
  t.write_lvt(1u << 17 | 0x30);
  t.start(10, 0);
  EXPECT_TRUE(t.fire());
  EXPECT_EQ(t.due(), 20 * ApicTimer::kTick);
  t.write_lvt(1u << 16 | 0x30);
  EXPECT_FALSE(t.fire()) << "masked";
  t.write_lvt(0x0f);
  t.start(10, 0);
  EXPECT_FALSE(t.fire()) << "vectors below 16 are illegal";
}

TEST(Apic, AnInterruptCommandWakesItsDestinations) {
  const apic::Identity i{3, 1u << 2};
  const auto to = [&](std::uint32_t command, std::uint32_t destination, bool is_sender = false) {
    return apic::wakes(command, destination << 24, is_sender, i);
  };
  constexpr std::uint32_t kLogical = 1u << 11, kShorthand = 1u << 18;
  EXPECT_TRUE(to(0xfd, 3));
  EXPECT_FALSE(to(0xfd, 2));
  EXPECT_TRUE(to(0xfd, 0xff)) << "all";
  EXPECT_TRUE(to(kLogical | 0xfd, 6));
  EXPECT_FALSE(to(kLogical | 0xfd, 3));
  EXPECT_FALSE(to(1 * kShorthand, 3)) << "self";
  EXPECT_TRUE(to(2 * kShorthand, 0)) << "all";
  EXPECT_TRUE(to(3 * kShorthand, 0)) << "all others";
  EXPECT_FALSE(to(3 * kShorthand, 0, true));
  EXPECT_TRUE(to(4u << 8, 3)) << "NMI";
  EXPECT_FALSE(to(5u << 8, 3)) << "INIT";
  EXPECT_TRUE(to(6u << 8, 3)) << "start-up";
}

TEST(Apic, ADisabledApicAcceptsNoFixedInterrupts) {
  constexpr std::uint32_t kAllOthers = 3u << 18;
  const apic::Identity offline{3, 8, false};
  EXPECT_FALSE(apic::wakes(kAllOthers | 0xfb, 0, false, offline));
  EXPECT_FALSE(apic::wakes(kAllOthers | 1u << 8 | 0xfb, 0, false, offline)) << "lowest priority";
  EXPECT_TRUE(apic::wakes(4u << 8, 3u << 24, false, offline)) << "NMI";
  EXPECT_TRUE(apic::wakes(6u << 8, 3u << 24, false, offline)) << "start-up";
  EXPECT_FALSE(apic::is_addressed(0xfee03000, offline));
}

TEST(Apic, AMessageIsForTheApicThatItsAddressNames) {
  const apic::Identity i{3, 4};
  EXPECT_TRUE(apic::is_addressed(0xfee03000, i));
  EXPECT_FALSE(apic::is_addressed(0xfee02000, i));
  EXPECT_TRUE(apic::is_addressed(0xfee06004, i)) << "logical, two CPUs";
  EXPECT_FALSE(apic::is_addressed(0xfee03004, i));
  EXPECT_FALSE(apic::is_addressed(0xfed03000, i));
  EXPECT_FALSE(apic::is_addressed(0, i));
}

}  // namespace
}  // namespace drfq::plugin
