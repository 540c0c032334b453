// SPDX-License-Identifier: GPL-2.0-only
#include "qemu-plugin/decode.hh"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace drfq::plugin {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Copies the bytes to memory of exactly this size, so that a sanitizer reports reads beyond it.
template <class F>
auto exactly(const Bytes &bytes, F f) {
  const std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return f(copy.get(), bytes.size());
}
SpecialInsn kind(const Bytes &b) { return exactly(b, decode); }
Operand operand(const Bytes &b) { return exactly(b, clflush_operand); }

TEST(Decode, HandledInstructionsAreRecognised) {
  EXPECT_EQ(kind({0x0f, 0xa2}), SpecialInsn::cpuid);
  EXPECT_EQ(kind({0x0f, 0x32}), SpecialInsn::rdmsr);
  EXPECT_EQ(kind({0x0f, 0x30}), SpecialInsn::wrmsr);
  EXPECT_EQ(kind({0x0f, 0x33}), SpecialInsn::rdpmc);
  EXPECT_EQ(kind({0x0f, 0x31}), SpecialInsn::rdtsc);
  EXPECT_EQ(kind({0x0f, 0x01, 0xf9}), SpecialInsn::rdtscp);
  EXPECT_EQ(kind({0xf3, 0x90}), SpecialInsn::pause);
  EXPECT_EQ(kind({0xf4}), SpecialInsn::hlt);
  EXPECT_EQ(kind({0x0f, 0xae, 0x38}), SpecialInsn::clflush) << "clflush (rax)";
  EXPECT_EQ(kind({0x66, 0x0f, 0xae, 0x3f}), SpecialInsn::clflush) << "clflushopt (rdi)";
  EXPECT_EQ(kind({0x0f, 0x22, 0xd8}), SpecialInsn::address_space) << "mov cr3, rax";
  EXPECT_EQ(kind({0x0f, 0x22, 0xe0}), SpecialInsn::translation) << "mov cr4, rax";
  EXPECT_EQ(kind({0x44, 0x0f, 0x22, 0xc0}), SpecialInsn::none) << "mov cr8, rax";
  EXPECT_EQ(kind({0x0f, 0x01, 0x38}), SpecialInsn::translation) << "invlpg (rax)";
  EXPECT_EQ(kind({0x66, 0x0f, 0x38, 0x82, 0x00}), SpecialInsn::translation) << "invpcid";
}

TEST(Decode, NonTemporalStoresAreRecognised) {
  const auto streams = [](const Bytes &b) { return exactly(b, is_streaming_store); };
  EXPECT_TRUE(streams({0x0f, 0xc3, 0x07})) << "movnti (rdi), eax";
  EXPECT_TRUE(streams({0x48, 0x0f, 0xc3, 0x47, 0x08})) << "movnti 8(rdi), rax";
  EXPECT_TRUE(streams({0x0f, 0xe7, 0x07})) << "movntq (rdi), mm0";
  EXPECT_TRUE(streams({0x66, 0x0f, 0xe7, 0x07})) << "movntdq (rdi), xmm0";
  EXPECT_TRUE(streams({0x66, 0x44, 0x0f, 0xe7, 0x07})) << "movntdq (rdi), xmm8";
  EXPECT_TRUE(streams({0x0f, 0x2b, 0x07})) << "movntps (rdi), xmm0";
  EXPECT_TRUE(streams({0xc5, 0xfd, 0xe7, 0x07})) << "vmovntdq (rdi), ymm0";
  EXPECT_TRUE(streams({0xc4, 0xc1, 0x7d, 0xe7, 0x00})) << "vmovntdq (r8), ymm0";
  EXPECT_FALSE(streams({0x0f, 0x2b, 0xc1})) << "a register is no memory";
  EXPECT_FALSE(streams({0x66, 0x0f, 0xe6, 0x07})) << "cvttpd2dq";
  EXPECT_FALSE(streams({0xc5, 0xfd, 0xc3, 0x07})) << "no such VEX instruction";
  EXPECT_FALSE(streams({0xc4, 0xe2, 0x7d, 0x2b, 0x07})) << "vpackusdw";
  EXPECT_FALSE(streams({0x48, 0x89, 0x07})) << "mov (rdi), rax";
  for (const Bytes &cut : {Bytes{}, Bytes{0x0f}, Bytes{0x0f, 0xe7}, Bytes{0xc5}, Bytes{0xc5, 0xfd},
                           Bytes{0xc4}, Bytes{0xc4, 0xc1, 0x7d}, Bytes{0xc4, 0xc1, 0x7d, 0xe7}})
    EXPECT_FALSE(streams(cut));
}

TEST(Decode, OtherInstructionsAreNotRecognised) {
  EXPECT_EQ(kind({0x90}), SpecialInsn::none) << "nop";
  EXPECT_EQ(kind({0x0f, 0x01, 0xf8}), SpecialInsn::none) << "swapgs";
  EXPECT_EQ(kind({0x0f, 0x01, 0xd0}), SpecialInsn::none) << "xgetbv";
  EXPECT_EQ(kind({0x0f, 0xae, 0xf8}), SpecialInsn::none) << "sfence";
  EXPECT_EQ(kind({0x0f, 0xae, 0x30}), SpecialInsn::none) << "xsaveopt or clwb";
  EXPECT_EQ(kind({0x0f, 0x22, 0xd0}), SpecialInsn::none) << "mov cr2, rax";
  EXPECT_EQ(kind({0x0f, 0x20, 0xd8}), SpecialInsn::none) << "mov rax, cr3";
  EXPECT_EQ(kind({0x89, 0x0f}), SpecialInsn::none) << "0f as an operand";
  EXPECT_EQ(kind({0xb8, 0x0f, 0xa2, 0, 0}), SpecialInsn::none) << "0f a2 as a constant";
}

TEST(Decode, PrefixesAreSkippedAndShortInputIsSafe) {
  EXPECT_EQ(kind({0x48, 0x0f, 0xa2}), SpecialInsn::cpuid) << "REX";
  EXPECT_EQ(kind({0x2e, 0x0f, 0x31}), SpecialInsn::rdtsc);
  EXPECT_EQ(kind({0x66, 0x90}), SpecialInsn::none);
  for (const Bytes &b : {Bytes{}, Bytes{0x0f}, Bytes{0x66}, Bytes{0x48}, Bytes{0xf3, 0x48},
                         Bytes{0x66, 0x66, 0x66, 0x66}, Bytes{0x0f, 0x01}, Bytes{0x0f, 0x38}})
    EXPECT_EQ(kind(b), SpecialInsn::none) << b.size();
}

TEST(Decode, ClflushOperandsAreRegisterPlusDisplacement) {
  EXPECT_EQ(operand({0x0f, 0xae, 0x3f}).base, 7u) << "(rdi)";
  EXPECT_EQ(operand({0x41, 0x0f, 0xae, 0x3f}).base, 15u) << "(r15)";
  const Operand near = operand({0x0f, 0xae, 0x7b, 0xf0});
  EXPECT_EQ(near.base, 3u);
  EXPECT_EQ(near.displacement, -16) << "-16(rbx)";
  const Operand far = operand({0x66, 0x41, 0x0f, 0xae, 0xb8, 0x00, 0x00, 0x00, 0x80});
  EXPECT_EQ(far.base, 8u);
  EXPECT_EQ(far.displacement, INT32_MIN);
  for (const Bytes &b : {Bytes{}, Bytes{0x0f, 0xae}, Bytes{0x66}, Bytes{0x0f, 0xae, 0x3c}})
    EXPECT_EQ(operand(b).base, Operand::kNone);
  EXPECT_EQ(operand({0x0f, 0xae, 0x7b}).displacement, 0) << "the displacement is missing";
}

TEST(Decode, ClflushOperandsMayHaveAScaledIndexOrNoBase) {
  const auto is = [](const Bytes &b, unsigned base, unsigned index, unsigned shift,
                     std::int32_t displacement, bool after_insn = false) {
    const Operand o = operand(b);
    EXPECT_EQ(o.base, base);
    EXPECT_EQ(o.index, index);
    EXPECT_EQ(o.shift, shift);
    EXPECT_EQ(o.displacement, displacement);
    EXPECT_EQ(o.after_insn, after_insn);
  };
  constexpr unsigned kNone = Operand::kNone;
  is({0x0f, 0xae, 0x3c, 0x24}, 4, kNone, 0, 0);                               // (rsp)
  is({0x41, 0x0f, 0xae, 0x3c, 0x24}, 12, kNone, 0, 0);                        // (r12)
  is({0x0f, 0xae, 0x7c, 0x98, 0xf0}, 0, 3, 2, -16);                           // -16(rax, rbx, 4)
  is({0x43, 0x0f, 0xae, 0x3c, 0xe1}, 9, 12, 3, 0);                            // (r9, r12, 8)
  is({0x42, 0x0f, 0xae, 0xbc, 0x2d, 0, 1, 0, 0}, 5, 13, 0, 256);              // 256(rbp, r13)
  is({0x0f, 0xae, 0x3c, 0xcd, 0, 0, 0, 0x80}, kNone, 1, 3, INT32_MIN);        // (, rcx, 8)
  is({0x0f, 0xae, 0x3c, 0x25, 0x40, 0, 0, 0}, kNone, kNone, 0, 64);           // 64
  is({0x0f, 0xae, 0x3d, 0xfc, 0xff, 0xff, 0xff}, kNone, kNone, 0, -4, true);  // -4(rip)
  is({0x41, 0x0f, 0xae, 0x3d, 4, 0, 0, 0}, kNone, kNone, 0, 4, true);         // 4(rip)
}

TEST(Decode, TheRegisterThatCr3IsLoadedFromIsRead) {
  const auto base = [](const Bytes &b) { return exactly(b, address_space_operand).base; };
  EXPECT_EQ(base({0x0f, 0x22, 0xd8}), 0u) << "mov cr3, rax";
  EXPECT_EQ(base({0x41, 0x0f, 0x22, 0xdd}), 13u) << "mov cr3, r13";
  EXPECT_EQ(base({0x0f, 0x22}), 16u);
}

}  // namespace
}  // namespace drfq::plugin
