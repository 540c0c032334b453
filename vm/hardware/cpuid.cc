// SPDX-License-Identifier: GPL-2.0-only
#include "cpuid.hh"

#include <algorithm>
#include <numeric>

#include "hardware_model.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint32_t bit(unsigned n) { return std::uint32_t{1} << n; }

/// The kernel takes the crystal clock of leaf 15H for the clock of the local APIC's timer, which
/// runs at 1 GHz (qemu-plugin/apic_timer.hh).
constexpr std::uint32_t kCrystalHz = 1'000'000'000;

Cpuid features(const MachineDescription &d, Cpuid c) {
  // MONITOR is hidden, because its wake-up by a store is not modelled. x2APIC and the TSC-deadline
  // timer are hidden, too. Without the hypervisor bit software behaves as on bare metal.
  c.ecx &= ~(bit(3) | bit(21) | bit(24) | bit(31));
  c.ecx = d.pmu.version != 0 ? c.ecx | bit(15) : c.ecx & ~bit(15);
  // The model chooses the events that software knows. The family stays 6, the stepping becomes 3.
  if (d.cpu_model != 0)
    c.eax = (c.eax & 0xf000) | (d.cpu_model >> 4) << 16 | 6 << 8 | (d.cpu_model & 0xf) << 4 | 3;
  return c;
}

/// A leaf 4 entry. sharing: cores that share the cache; the leaf reports a power of two.
Cpuid cache(const CacheConfig &s, unsigned level, unsigned type, unsigned sharing,
            const Cpuid &host) {
  unsigned ids = 1;
  while (ids < sharing) ids *= 2;
  Cpuid c;
  // The number of cores in the package stays QEMU's, which agrees with its topology leaves.
  c.eax = (host.eax & 0xfc000000) | (ids - 1) << 14 | bit(8) | level << 5 | type;
  c.ebx = (s.ways - 1) << 22 | (kLineBytes - 1);
  c.ecx = s.sets() - 1;
  return c;
}

Cpuid caches(const MachineDescription &d, std::uint32_t subleaf, const Cpuid &host) {
  switch (subleaf) {
    case 0:
      return cache(d.l1, 1, 1, 1, host);
    // Instruction fetches are not modelled, but software expects an instruction cache.
    case 1:
      return cache(d.l1, 1, 2, 1, host);
    // Software expects a level 2 cache between level 1 and level 3. This one has the size of the
    // level 1 cache and holds the same lines.
    case 2:
      return cache(d.l1, 2, 3, 1, host);
    case 3:
      return cache(d.llc, 3, 3, d.cores, host);
    default:
      return {};
  }
}

Cpuid monitoring(const RdtConfig &s, std::uint32_t subleaf) {
  Cpuid c;
  if (s.rmids == 0) return c;
  if (subleaf == 0) {
    c.ebx = s.rmids - 1;
    c.edx = bit(1);
  } else if (subleaf == 1) {
    c.eax = s.counter_bits - 24;
    c.ebx = s.upscale;
    c.ecx = s.rmids - 1;
    c.edx = 7;
  }
  return c;
}

Cpuid allocation(const RdtConfig &s, std::uint32_t subleaf) {
  Cpuid c;
  if (subleaf == 0) {
    c.ebx = (s.l3_closes != 0 ? bit(1) : 0) | (s.mba_closes != 0 ? bit(3) : 0);
  } else if (subleaf == 1 && s.l3_closes != 0) {
    c.eax = s.cbm_bits - 1;
    c.edx = s.l3_closes - 1;
  } else if (subleaf == 3 && s.mba_closes != 0) {
    c.eax = s.mba_max_delay - 1;
    c.ecx = bit(2);  // software counts on values in percent, whatever their effect
    c.edx = s.mba_closes - 1;
  }
  return c;
}

Cpuid monitors(const PmuConfig &p) {
  Cpuid c;
  if (p.version == 0) return c;
  // Seven architectural events. Bits 5 and 6 report the two branch events as absent.
  constexpr unsigned kEvents = 7;
  c.eax = p.version | p.counters << 8 | p.bits << 16 | kEvents << 24;
  c.ebx = bit(5) | bit(6);
  c.edx = p.fixed | p.bits << 5;
  return c;
}

}  // namespace

Cpuid cpuid_of(const MachineDescription &d, std::uint32_t leaf, std::uint32_t subleaf,
               const Cpuid &host) {
  Cpuid c = host;
  const bool rdt_alloc = d.rdt.l3_closes != 0 || d.rdt.mba_closes != 0;
  switch (leaf) {
    case 0x0:
      c.eax = std::max(c.eax, kMaxLeaf);
      return c;
    case 0x1:
      return features(d, c);
    case 0x2:
      return {0x00ff0001, 0, 0, 0};  // FFH: see leaf 4
    case 0x4:
      return caches(d, subleaf, host);
    case 0x7:
      if (subleaf != 0) return c;
      c.ebx = (c.ebx & ~(bit(12) | bit(15))) | (d.rdt.rmids != 0 ? bit(12) : 0) |
              (rdt_alloc ? bit(15) : 0);
      return c;
    case 0xA:
      return monitors(d.pmu);
    case 0xF:
      return monitoring(d.rdt, subleaf);
    case 0x10:
      return allocation(d.rdt, subleaf);
    case 0x15: {
      // In lowest terms, because the kernel multiplies in 32 bits.
      const std::uint64_t g = std::gcd(d.tsc_hz, std::uint64_t{kCrystalHz});
      return {static_cast<std::uint32_t>(kCrystalHz / g), static_cast<std::uint32_t>(d.tsc_hz / g),
              kCrystalHz, 0};
    }
    case 0x16: {
      const std::uint32_t mhz = static_cast<std::uint32_t>(d.clock_hz / 1'000'000);
      return {mhz, mhz, 100, 0};
    }
    default:
      return c;
  }
}

}  // namespace drfq::hardware
