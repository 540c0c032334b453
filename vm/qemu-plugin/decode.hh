// SPDX-License-Identifier: GPL-2.0-only
// The instructions that the plugin does itself, told by their bytes. Pure.
#ifndef DRFQ_PLUGIN_DECODE_HH
#define DRFQ_PLUGIN_DECODE_HH

#include <cstddef>
#include <cstdint>

namespace drfq::plugin {

enum class Special : std::uint8_t {
  none,
  cpuid,
  rdmsr,
  wrmsr,
  rdpmc,
  rdtsc,
  rdtscp,
  pause,
  hlt,
  clflush,      ///< and CLFLUSHOPT, CLWB is not: it keeps the line
  translation,  ///< changes what virtual addresses mean: MOV to CR0/3/4, INVLPG, INVPCID
};

/// Where the operand of CLFLUSH is: a register plus displacement; base 16: another form.
struct Operand {
  unsigned base = 16;
  std::int32_t displacement = 0;
};

namespace detail {
/// Index of the first byte after legacy and REX prefixes; *rex gets the latter.
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

inline Special two_byte(const std::uint8_t *b, std::size_t n, std::uint8_t rex) {
  const std::uint8_t modrm = n > 2 ? b[2] : 0;
  const unsigned reg = modrm >> 3 & 7;
  switch (b[1]) {
    case 0xa2:
      return Special::cpuid;
    case 0x32:
      return Special::rdmsr;
    case 0x30:
      return Special::wrmsr;
    case 0x33:
      return Special::rdpmc;
    case 0x31:
      return Special::rdtsc;
    case 0x22:
      // With REX.R it is CR8, the task priority.
      return (rex & 4) == 0 && (reg == 0 || reg == 3 || reg == 4) ? Special::translation
                                                                  : Special::none;
    case 0x01:
      if (modrm == 0xf9) return Special::rdtscp;
      return reg == 7 && modrm < 0xc0 ? Special::translation : Special::none;
    case 0x38:
      return modrm == 0x82 ? Special::translation : Special::none;
    case 0xae:
      return reg == 7 && modrm < 0xc0 ? Special::clflush : Special::none;
    default:
      return Special::none;
  }
}
}  // namespace detail

/// What the instruction of these bytes is.
inline Special decode(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false;
  const std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat);
  if (i >= n) return Special::none;
  if (b[i] == 0xf4) return Special::hlt;
  if (b[i] == 0x90) return repeat ? Special::pause : Special::none;
  return b[i] == 0x0f && i + 1 < n ? detail::two_byte(b + i, n - i, rex) : Special::none;
}

/// The operand of an instruction that decode() calls clflush.
inline Operand clflush_operand(const std::uint8_t *b, std::size_t n) {
  std::uint8_t rex = 0;
  bool repeat = false;
  const std::size_t i = detail::skip_prefixes(b, n, &rex, &repeat) + 2;
  Operand out;
  if (i >= n) return out;
  const unsigned mod = b[i] >> 6, rm = b[i] & 7;
  if (rm == 4 || (mod == 0 && rm == 5)) return out;
  out.base = rm | (rex & 1) << 3;
  if (mod == 1 && i + 1 < n) out.displacement = static_cast<std::int8_t>(b[i + 1]);
  if (mod == 2 && i + 4 < n)
    out.displacement = static_cast<std::int32_t>(b[i + 1] | b[i + 2] << 8 | b[i + 3] << 16 |
                                                 static_cast<std::uint32_t>(b[i + 4]) << 24);
  return out;
}

}  // namespace drfq::plugin

#endif
