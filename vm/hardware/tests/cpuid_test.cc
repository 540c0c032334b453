// SPDX-License-Identifier: GPL-2.0-only
#include "cpuid.hh"

#include <gtest/gtest.h>

#include "hardware_model.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

Cpuid leaf(const MachineDescription &d, std::uint32_t l, std::uint32_t s = 0,
           const Cpuid &host = {}) {
  return cpuid_of(d, l, s, host);
}

TEST(Cpuid, RdtLeavesMatchTheDescription) {
  const MachineDescription d = shipped("thesis");
  EXPECT_EQ(leaf(d, 0xF).ebx, d.rdt.rmids - 1);
  EXPECT_EQ(leaf(d, 0xF).edx, 2u);
  EXPECT_EQ(leaf(d, 0xF, 1).ebx, d.rdt.upscale);
  EXPECT_EQ(leaf(d, 0xF, 1).ecx, d.rdt.rmids - 1);
  EXPECT_EQ(leaf(d, 0xF, 1).edx, 7u);
  EXPECT_EQ(leaf(d, 0x10).ebx, 0xau);
  EXPECT_EQ(leaf(d, 0x10, 1).eax, d.rdt.cbm_bits - 1);
  EXPECT_EQ(leaf(d, 0x10, 1).edx, d.rdt.l3_closes - 1);
  EXPECT_EQ(leaf(d, 0x10, 3).eax, 89u);
  EXPECT_EQ(leaf(d, 0x10, 3).ecx, 4u);
  EXPECT_EQ(leaf(d, 0x10, 2).edx, 0u);
  EXPECT_EQ(leaf(d, 7).ebx, 1u << 12 | 1u << 15);
  EXPECT_EQ(leaf(d, 7, 1, {1, 2, 3, 4}).ebx, 2u) << "passes through";
}

TEST(Cpuid, AbsentFeaturesAreHidden) {
  const MachineDescription d = shipped("laptop");
  ASSERT_EQ(d.rdt.rmids, 0u);
  EXPECT_EQ(leaf(d, 7, 0, {0, ~0u, 0, 0}).ebx, ~(1u << 12 | 1u << 15));
  EXPECT_EQ(leaf(d, 0xF, 0, {1, 1, 1, 1}).edx, 0u);
  EXPECT_EQ(leaf(d, 0x10, 0, {1, 1, 1, 1}).ebx, 0u);
  MachineDescription none = d;
  none.pmu = PmuConfig();
  EXPECT_EQ(leaf(none, 0xA, 0, {1, 1, 1, 1}).eax, 0u);
  EXPECT_EQ(leaf(none, 1, 0, {0, 0, ~0u, 0}).ecx & 1u << 15, 0u);
}

TEST(Cpuid, TheModelIsThatOfTheDescription) {
  MachineDescription d = shipped("thesis");
  d.cpu_model = 0x3c;
  EXPECT_EQ(leaf(d, 1, 0, {0x506e3, 0, 0, 0}).eax, 0x306c3u) << "a Haswell";
  d.cpu_model = 0;
  EXPECT_EQ(leaf(d, 1, 0, {0x506e3, 0, 0, 0}).eax, 0x506e3u) << "passes through";
}

TEST(Cpuid, PmuLeafMatchesTheDescription) {
  const MachineDescription d = shipped("thesis");
  const Cpuid c = leaf(d, 0xA);
  EXPECT_EQ(c.eax & 0xff, 2u);
  EXPECT_EQ(c.eax >> 8 & 0xff, d.pmu.counters);
  EXPECT_EQ(c.eax >> 16 & 0xff, d.pmu.bits);
  EXPECT_EQ(c.ebx, 0x60u) << "no branch events";
  EXPECT_EQ(c.edx, d.pmu.fixed | d.pmu.bits << 5);
  EXPECT_NE(leaf(d, 1).ecx & 1u << 15, 0u);
}

TEST(Cpuid, CacheLeavesMatchTheDescription) {
  for (const char *name : {"thesis", "xeon", "laptop"}) {
    const MachineDescription d = shipped(name);
    bool l1 = false, l3 = false;
    for (std::uint32_t s = 0; s < 8; s++) {
      const Cpuid c = leaf(d, 4, s);
      if ((c.eax & 0x1f) == 0) break;
      const std::uint64_t bytes =
          std::uint64_t{(c.ebx >> 22) + 1} * ((c.ebx & 0xfff) + 1) * (c.ecx + 1);
      const unsigned level = c.eax >> 5 & 7, shared = (c.eax >> 14 & 0xfff) + 1;
      if (level == 3) {
        l3 = true;
        EXPECT_EQ(bytes, d.llc.bytes) << name;
        EXPECT_GE(shared, d.cores) << name;
      } else if (level == 1 && (c.eax & 0x1f) == 1) {
        l1 = true;
        EXPECT_EQ(bytes, d.l1.bytes) << name;
        EXPECT_EQ(shared, 1u) << name;
      }
    }
    EXPECT_TRUE(l1 && l3) << name;
  }
}

TEST(Cpuid, TheTscRatioDoesNotOverflowTheKernelsProducts) {
  for (std::uint64_t mhz : {1u, 100u, 1000u, 2600u, 3700u}) {
    MachineDescription d = shipped("thesis");
    d.tsc_hz = mhz * 1'000'000;
    const Cpuid c = leaf(d, 0x15);
    EXPECT_EQ(static_cast<double>(c.ecx) * c.ebx / c.eax, static_cast<double>(d.tsc_hz));
    // native_calibrate_tsc() multiplies kHz in 32 bits.
    EXPECT_LE(std::uint64_t{c.ecx} / 1000 * c.ebx, 0xffffffffu) << mhz;
  }
}

TEST(Cpuid, OtherLeavesPassThrough) {
  const MachineDescription d = shipped("thesis");
  const Cpuid host{1, 2, 3, 4};
  for (std::uint32_t l : {0xBu, 0xDu, 0x80000008u}) {
    const Cpuid c = leaf(d, l, 0, host);
    EXPECT_EQ(c.eax, 1u);
    EXPECT_EQ(c.edx, 4u);
  }
  EXPECT_GE(leaf(d, 0, 0, host).eax, 0x1fu);
}

}  // namespace
}  // namespace drfq::hardware
