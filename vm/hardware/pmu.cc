// SPDX-License-Identifier: GPL-2.0-only
#include "pmu.hh"

namespace drfq::hardware {
namespace {

constexpr unsigned kFixedBit =
    32;  // of the first fixed counter in the IA32_PERF_GLOBAL_* registers

/// Fields of IA32_PERFEVTSELx.
constexpr std::uint64_t kUsr = 1u << 16, kOs = 1u << 17, kEdge = 1u << 18, kEnable = 1u << 22;
constexpr std::uint64_t kInvert = 1u << 23, kCounterMask = 0xffu << 24;
constexpr std::uint64_t kEvtselBits = 0xffffffff;

/// MSR_OFFCORE_RSP_x from Haswell on: bits of the request, then of the response.
constexpr std::uint64_t kDemandRead = 1 << 0, kDemandOwn = 1 << 1, kWriteBack = 1 << 3;
constexpr std::uint64_t kPrefetchRead = 1 << 4 | 1 << 7 | 1 << 10;
constexpr std::uint64_t kPrefetchOwn = 1 << 5 | 1 << 8, kStreaming = 1 << 11;
constexpr std::uint64_t kAnyResponse = 1 << 16, kL3Hits = 0xf << 18;
/// Snoops that end without a line of another core: none, not needed, and missed.
constexpr std::uint64_t kSnoops = std::uint64_t{7} << 31;
constexpr std::uint64_t kOffcoreBits = 0x3fffffffffull;

constexpr std::uint64_t kFullWidthWrites = 1 << 13;  // IA32_PERF_CAPABILITIES.FW_WRITE

/// The bit of a miss in the memory of the core's own socket. The bits behind it are those of other
/// sockets, which this machine has not.
std::uint64_t local_memory(unsigned model) {
  const bool haswell = model == 0x3c || model == 0x3f || model == 0x45 || model == 0x46;
  return std::uint64_t{1} << (haswell ? 22 : 26);
}

/// A response counts if both its source and its snoop are asked for.
std::uint64_t offcore(std::uint64_t request, std::uint64_t l3_miss, const CoreCounts &c) {
  const bool any = (request & kAnyResponse) != 0, snooped = (request & kSnoops) != 0;
  const bool hits = any || (snooped && (request & kL3Hits) != 0);
  const bool misses = any || (snooped && (request & l3_miss) != 0);
  std::uint64_t n = 0;
  if (request & kDemandRead)
    n += (hits ? c[Quantity::read_hit] : 0) + (misses ? c[Quantity::read_miss] : 0);
  if (request & kDemandOwn)
    n += (hits ? c[Quantity::rfo_hit] : 0) + (misses ? c[Quantity::rfo_miss] : 0);
  if ((request & kPrefetchRead) && misses)
    n += c[Quantity::prefetch_miss] - c[Quantity::prefetch_own];
  if ((request & kPrefetchOwn) && misses) n += c[Quantity::prefetch_own];
  if ((request & kStreaming) && misses) n += c[Quantity::streaming_store];
  if ((request & kWriteBack) && any) n += c[Quantity::write_back];
  return n;
}

std::uint64_t scaled(std::uint64_t ps, double per_ps) {
  return static_cast<std::uint64_t>(static_cast<long double>(ps) * per_ps);
}

}  // namespace

Pmu::Pmu(const MachineDescription &d)
    : general_(d.pmu.counters),
      fixed_(d.pmu.fixed),
      present_(d.pmu.version != 0),
      mask_((std::uint64_t{1} << d.pmu.bits) - 1),
      cycles_per_ps_(static_cast<double>(d.clock_hz) / 1e12),
      tsc_per_ps_(static_cast<double>(d.tsc_hz) / 1e12),
      l3_miss_(local_memory(d.cpu_model)),
      counters_(general_ + fixed_),
      evtsel_(general_),
      global_ctrl_((std::uint64_t{1} << general_) - 1) {}

std::uint64_t Pmu::event(std::uint16_t event_umask, std::uint64_t request,
                         const CoreCounts &c) const {
  switch (event_umask) {
    case 0x00C0:
      return c[Quantity::insns];  // INST_RETIRED.ANY
    case 0x003C:
      return scaled(c[Quantity::busy_ps], cycles_per_ps_);  // CPU_CLK_UNHALTED.THREAD
    case 0x013C:
      return scaled(c[Quantity::busy_ps], tsc_per_ps_);  // CPU_CLK_UNHALTED.REF_XCLK
    case 0x4F2E:
      return c.references();  // LONGEST_LAT_CACHE.REFERENCE
    case 0x412E:
      return c.misses();  // LONGEST_LAT_CACHE.MISS
    case 0x01B0:
      return c[Quantity::read_hit] + c[Quantity::read_miss];  // OFFCORE_REQUESTS.DEMAND_DATA_RD
    case 0x04B0:
      return c[Quantity::rfo_hit] + c[Quantity::rfo_miss];  // OFFCORE_REQUESTS.DEMAND_RFO
    case 0x08B0:                                            // OFFCORE_REQUESTS.ALL_DATA_RD
      return c[Quantity::read_hit] + c[Quantity::read_miss] + c[Quantity::prefetch_miss] -
             c[Quantity::prefetch_own];
    case 0x10B0:
      return c[Quantity::read_miss];  // OFFCORE_REQUESTS.L3_MISS_DEMAND_DATA_RD
    case 0x80B0:
      return c.references() + c[Quantity::write_back];  // OFFCORE_REQUESTS.ALL_REQUESTS
    case 0x20D1:
      return c[Quantity::read_miss];  // MEM_LOAD_RETIRED.L3_MISS
    case 0x04D1:
      return c[Quantity::read_hit];  // MEM_LOAD_RETIRED.L3_HIT
    case 0x08D1:
      return c[Quantity::read_hit] + c[Quantity::read_miss];  // MEM_LOAD_RETIRED.L1_MISS
    case 0x40F0:                                              // L2_TRANS.L2_WB
    case 0x02F2:
      return c[Quantity::write_back];  // L2_LINES_OUT.NON_SILENT
    case 0x01B7:                       // OFFCORE_RESPONSE_0, _1
    case 0x01BB:
      return offcore(request, l3_miss_, c);
    default:
      return 0;
  }
}

bool Pmu::is_on(unsigned i) const {
  if (i < general_) return (evtsel_[i] & kEnable) && (global_ctrl_ >> i & 1);
  const unsigned f = i - general_;
  return (fixed_ctrl_ >> (4 * f) & 3) && (global_ctrl_ >> (kFixedBit + f) & 1);
}

std::uint64_t Pmu::fixed_source(unsigned i, const CoreCounts &c) const {
  if (i == 0) return c[Quantity::insns];
  return scaled(c[Quantity::busy_ps], i == 1 ? cycles_per_ps_ : tsc_per_ps_);
}

std::uint64_t Pmu::source(unsigned i, const CountsByRing &now) const {
  std::uint64_t n = 0;
  if (i >= general_) {
    const std::uint64_t rings = fixed_ctrl_ >> (4 * (i - general_));
    for (unsigned ring = 0; ring < 2; ring++)
      if (rings >> ring & 1) n += fixed_source(i - general_, now.ring[ring]);
    return n;
  }
  const std::uint64_t e = evtsel_[i];
  if (e & (kEdge | kInvert | kCounterMask)) return 0;
  const std::uint16_t what = static_cast<std::uint16_t>(e);
  const std::uint64_t request = offcore_[what == 0x01BB];
  if (e & kOs) n += event(what, request, now.ring[0]);
  if (e & kUsr) n += event(what, request, now.ring[1]);
  return n;
}

void Pmu::update(const CountsByRing &now) {
  for (unsigned i = 0; i < counters_.size(); i++) {
    Counter &c = counters_[i];
    const std::uint64_t at = source(i, now);
    if (is_on(i)) {
      const std::uint64_t sum = c.value + (at - c.last_source);
      if (sum > mask_) status_ |= std::uint64_t{1} << (i < general_ ? i : kFixedBit + i - general_);
      c.value = sum & mask_;
    }
    c.last_source = at;
  }
}

std::uint64_t *Pmu::setting(std::uint32_t m) {
  if (!present_) return nullptr;
  if (m >= msr::kPerfevtsel && m - msr::kPerfevtsel < general_)
    return &evtsel_[m - msr::kPerfevtsel];
  if (m == msr::kOffcoreRsp0 || m == msr::kOffcoreRsp0 + 1) return &offcore_[m - msr::kOffcoreRsp0];
  if (m == msr::kFixedCtrCtrl && fixed_ != 0) return &fixed_ctrl_;
  if (m == msr::kGlobalCtrl) return &global_ctrl_;
  return nullptr;
}

std::uint64_t Pmu::writable(std::uint32_t m) const {
  const auto ones = [](unsigned n) { return (std::uint64_t{1} << n) - 1; };
  if (m == msr::kFixedCtrCtrl) return ones(4 * fixed_);
  if (m == msr::kGlobalCtrl) return ones(general_) | ones(fixed_) << kFixedBit;
  if (m == msr::kOffcoreRsp0 || m == msr::kOffcoreRsp0 + 1) return kOffcoreBits;
  return kEvtselBits;
}

MsrResult Pmu::read(std::uint32_t m, const CountsByRing &now, std::uint64_t *value) {
  if (!present_) return MsrResult::not_ours;
  if (m == msr::kPerfCapabilities) {
    *value = kFullWidthWrites;
    return MsrResult::handled;
  }
  if (m == msr::kGlobalOvfCtrl) {
    *value = 0;
    return MsrResult::handled;
  }
  if (const std::uint64_t *s = setting(m)) {
    *value = *s;
    return MsrResult::handled;
  }
  unsigned i = general_ + fixed_;
  if (m >= msr::kPmc && m - msr::kPmc < general_) i = m - msr::kPmc;
  if (m >= msr::kFullPmc && m - msr::kFullPmc < general_) i = m - msr::kFullPmc;
  if (m >= msr::kFixedCtr && m - msr::kFixedCtr < fixed_) i = general_ + m - msr::kFixedCtr;
  if (i == counters_.size() && m != msr::kGlobalStatus) return MsrResult::not_ours;
  update(now);
  *value = i < counters_.size() ? counters_[i].value : status_;
  return MsrResult::handled;
}

MsrResult Pmu::write(std::uint32_t m, const CountsByRing &now, std::uint64_t value) {
  if (!present_) return MsrResult::not_ours;
  if (m == msr::kPerfCapabilities || m == msr::kGlobalStatus) return MsrResult::fault;
  update(now);
  if (std::uint64_t *s = setting(m)) {
    if ((value & ~writable(m)) != 0) return MsrResult::fault;
    *s = value;
    // A counter that was just reprogrammed counts from this moment.
    for (unsigned i = 0; i < counters_.size(); i++) counters_[i].last_source = source(i, now);
    return MsrResult::handled;
  }
  if (m == msr::kGlobalOvfCtrl) {
    status_ &= ~value;
    return MsrResult::handled;
  }
  if (m >= msr::kPmc && m - msr::kPmc < general_) {
    // IA32_PMCx writes 32 bits, sign-extended; IA32_A_PMCx writes the full width.
    const std::int64_t low = static_cast<std::int32_t>(value);
    counters_[m - msr::kPmc].value = static_cast<std::uint64_t>(low) & mask_;
    return MsrResult::handled;
  }
  if (m >= msr::kFullPmc && m - msr::kFullPmc < general_) {
    if ((value & ~mask_) != 0) return MsrResult::fault;
    counters_[m - msr::kFullPmc].value = value;
    return MsrResult::handled;
  }
  if (m >= msr::kFixedCtr && m - msr::kFixedCtr < fixed_) {
    if ((value & ~mask_) != 0) return MsrResult::fault;
    counters_[general_ + m - msr::kFixedCtr].value = value;
    return MsrResult::handled;
  }
  return MsrResult::not_ours;
}

bool Pmu::rdpmc(std::uint32_t selector, const CountsByRing &now, std::uint64_t *value) {
  constexpr std::uint32_t kFixed = 1u << 30;
  const std::uint32_t i = selector & ~kFixed;
  if (!present_ || i >= ((selector & kFixed) ? fixed_ : general_)) return false;
  update(now);
  *value = counters_[(selector & kFixed) ? general_ + i : i].value;
  return true;
}

}  // namespace drfq::hardware
