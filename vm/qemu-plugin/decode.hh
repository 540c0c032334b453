// SPDX-License-Identifier: GPL-2.0-only
// Recognises the instructions that the plugin handles, from their bytes. Pure functions.
#ifndef DRFQ_PLUGIN_DECODE_HH
#define DRFQ_PLUGIN_DECODE_HH

#include <cstddef>
#include <cstdint>

namespace drfq::plugin {

enum class SpecialInsn : std::uint8_t {
  none,
  cpuid,
  rdmsr,
  wrmsr,
  rdpmc,
  rdtsc,
  rdtscp,
  pause,
  hlt,
  clflush,        ///< also CLFLUSHOPT; not CLWB, which keeps the line
  address_space,  ///< MOV to CR3
  translation,    ///< flushes translations besides: MOV to CR0 or CR4, INVLPG, INVPCID
};

/// A register, or a memory operand: base + (index << shift) + displacement. A segment's base is not
/// part of it.
struct Operand {
  static constexpr unsigned kNone = 16;
  unsigned base = kNone;  ///< register number
  std::int32_t displacement = 0;
  unsigned index = kNone;  ///< register number
  unsigned shift = 0;
  bool after_insn = false;  ///< relative to the address of the next instruction
};

namespace detail {
/// Index of the first byte after legacy and REX prefixes. *rex: the REX prefix; *repeat: set if a
/// REP prefix is present.
inline std::size_t skip_prefixes(const std::uint8_t *b, std::size_t n, std::uint8_t *rex,
                                 bool *repeat) {
  std::size_t i = 0;
  while (i < n && (b[i] == 0x66 || b[i] == 0x67 || b[i] == 0xf2 || b[i] == 0xf3 || b[i] == 0x2e ||
                   b[i] == 0x36 || b[i] == 0x3e || b[i] == 0x26 || b[i] == 0x64 || b[i] == 0x65)) {
    *repeat = *repeat || b[i] == 0xf3;
    i++;
  }
  if (i < n && (b[i] & 0xf0) == 0x40) *rex = b[i++];
  return i;
}

inline SpecialInsn two_byte(const std::uint8_t *b, std::size_t n, std::uint8_t rex) {
  const std::uint8_t modrm = n > 2 ? b[2] : 0;
  const unsigned reg = modrm >> 3 & 7;
  switch (b[1]) {
    case 0xa2:
      return SpecialInsn::cpuid;
    case 0x32:
      return SpecialInsn::rdmsr;
    case 0x30:
      return SpecialInsn::wrmsr;
    case 0x33:
      return SpecialInsn::rdpmc;
    case 0x31:
      return SpecialInsn::rdtsc;
    case 0x22:
      // With REX.R the register is CR8, the task priority.
      if ((rex & 4) != 0 || n < 3) return SpecialInsn::none;
      if (reg == 3) return SpecialInsn::address_space;
      return reg == 0 || reg == 4 ? SpecialInsn::translation : SpecialInsn::none;
    case 0x01:
      if (modrm == 0xf9) return SpecialInsn::rdtscp;
      return reg == 7 && modrm < 0xc0 ? SpecialInsn::translation : SpecialInsn::none;
    case 0x38:
      return modrm == 0x82 ? SpecialInsn::translation : SpecialInsn::none;
    case 0xae:
      return reg == 7 && modrm < 0xc0 ? SpecialInsn::clflush : SpecialInsn::none;
    default:
      return SpecialInsn::none;
  }
}
}  // namespace detail

/// Classifies the instruction in these bytes.
inline SpecialInsn decode(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false;
  const std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat);
  if (i >= n) return SpecialInsn::none;
  if (b[i] == 0xf4) return SpecialInsn::hlt;
  if (b[i] == 0x90) return repeat ? SpecialInsn::pause : SpecialInsn::none;
  return b[i] == 0x0f && i + 1 < n ? detail::two_byte(b + i, n - i, rex) : SpecialInsn::none;
}

/// Whether the instruction is a non-temporal store: MOVNTI, MOVNTQ, MOVNTDQ, MOVNTPS or MOVNTPD,
/// also in their VEX forms.
inline bool is_streaming_store(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false, vex = false;
  std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat);
  if (i < n && b[i] == 0x0f) {
    i += 1;
  } else if (i < n && b[i] == 0xc5) {
    i += 2;
    vex = true;
  } else if (i + 1 < n && b[i] == 0xc4 && (b[i + 1] & 0x1f) == 1) {
    i += 3;
    vex = true;
  } else {
    return false;
  }
  if (i + 1 >= n) return false;
  const bool known = b[i] == 0xe7 || b[i] == 0x2b || (b[i] == 0xc3 && !vex);
  return known && b[i + 1] < 0xc0;  // from 0xc0 on, the operand is a register
}

/// The register that an instruction which decode() classified as address_space loads CR3 from.
inline Operand address_space_operand(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false;
  const std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat) + 2;
  Operand out;
  if (i < n) out.base = (b[i] & 7) | (rex & 1) << 3;
  return out;
}

/// The operand of an instruction that decode() classified as clflush, in 64-bit mode (Intel SDM,
/// volume 2, tables 2-2 and 2-3).
inline Operand clflush_operand(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false;
  std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat) + 2;
  Operand out;
  if (i >= n) return out;
  const unsigned mod = b[i] >> 6;
  unsigned rm = b[i++] & 7;
  const bool scaled = rm == 4;
  if (scaled) {
    if (i >= n) return out;
    const std::uint8_t sib = b[i++];
    const unsigned index = (sib >> 3 & 7) | (rex & 2) << 2;
    if (index != 4) out.index = index;
    out.shift = sib >> 6;
    rm = sib & 7;
  }
  if (mod != 0 || rm != 5)
    out.base = rm | (rex & 1) << 3;
  else
    out.after_insn = !scaled;
  if (mod == 1 && i < n) out.displacement = static_cast<std::int8_t>(b[i]);
  if ((mod == 2 || (mod == 0 && rm == 5)) && i + 3 < n)
    out.displacement = static_cast<std::int32_t>(b[i] | b[i + 1] << 8 | b[i + 2] << 16 |
                                                 static_cast<std::uint32_t>(b[i + 3]) << 24);
  return out;
}

}  // namespace drfq::plugin

#endif
