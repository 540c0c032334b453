// SPDX-License-Identifier: GPL-2.0-only
#include "rdt.hh"

#include <algorithm>

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kError = std::uint64_t{1} << 63;
constexpr std::uint64_t kEvents = 3;  // occupancy, total, local

constexpr std::uint64_t low_bits(unsigned n) {
  return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

bool contiguous(std::uint64_t mask) {
  const std::uint64_t shifted = mask / (mask & (~mask + 1));
  return (shifted & (shifted + 1)) == 0;
}

}  // namespace

double rate_share(ThrottleCurve t, unsigned delay_percent) {
  const double level = 100.0 - std::min(delay_percent, 99u);
  if (t == ThrottleCurve::plateau && level >= 65 && level <= 94) return 0.9;
  if (t != ThrottleCurve::mt2) return level / 100;
  constexpr double kFlat = 60, kLow = 10, kAtLow = 28.0 / 102;
  if (level >= kFlat) return 1;
  const double share = kAtLow + (1 - kAtLow) * (level - kLow) / (kFlat - kLow);
  return std::max(share, 0.01);
}

Rdt::Rdt(const RdtConfig &s, unsigned cores, unsigned ways)
    : config_(s),
      all_ways_(static_cast<unsigned>(low_bits(ways))),
      evtsel_(cores),
      pqr_(cores),
      mask_(s.l3_closes, low_bits(s.cbm_bits)),
      delay_(s.mba_closes),
      ways_(std::max(1u, s.l3_closes), all_ways_),
      factors_(std::max(1u, s.mba_closes), 0.0),
      lines_(std::max(1u, s.rmids)) {}

RdtClass Rdt::class_of(unsigned core) const {
  return {static_cast<std::uint16_t>(pqr_[core] & 0x3ff),
          static_cast<std::uint16_t>(pqr_[core] >> 32)};
}

MsrResult Rdt::counter(std::uint64_t evtsel, const SharedCache &cache, std::uint64_t *value) const {
  const std::uint64_t event = evtsel & 0xff, rmid = evtsel >> 32 & 0x3ff;
  *value = kError;
  if (event == 0 || event > kEvents || rmid >= config_.rmids) return MsrResult::handled;
  const std::uint16_t id = static_cast<std::uint16_t>(rmid);
  const std::uint64_t lines = event == 1 ? cache.lines_held(id) : lines_[id];
  const std::uint64_t count = lines * kLineBytes / config_.upscale;
  *value = event == 1 ? count : (config_.counter_start + count) & low_bits(config_.counter_bits);
  return MsrResult::handled;
}

MsrResult Rdt::read(unsigned core, std::uint32_t m, const SharedCache &cache,
                    std::uint64_t *value) const {
  if (m == msr::kPqrAssoc && (monitors() || allocates())) {
    *value = pqr_[core];
  } else if (m == msr::kQmEvtsel && monitors()) {
    *value = evtsel_[core];
  } else if (m == msr::kQmCtr && monitors()) {
    return counter(evtsel_[core], cache, value);
  } else if (m >= msr::kL3Mask && m - msr::kL3Mask < mask_.size()) {
    *value = mask_[m - msr::kL3Mask];
  } else if (m >= msr::kMbaDelay && m - msr::kMbaDelay < delay_.size()) {
    *value = delay_[m - msr::kMbaDelay];
  } else {
    return MsrResult::not_ours;
  }
  return MsrResult::handled;
}

MsrResult Rdt::write(unsigned core, std::uint32_t m, std::uint64_t value) {
  const auto done = [](bool ok) { return ok ? MsrResult::handled : MsrResult::fault; };
  if (m == msr::kPqrAssoc && (monitors() || allocates())) {
    const std::uint64_t rmid = value & 0xffffffff, clos = value >> 32;
    const std::uint64_t classes = std::max({1u, config_.l3_closes, config_.mba_closes});
    if (rmid >= std::max(1u, config_.rmids) || clos >= classes) return MsrResult::fault;
    pqr_[core] = value;
    return MsrResult::handled;
  }
  if (m == msr::kQmEvtsel && monitors()) {
    if ((value & ~(std::uint64_t{0x3ff} << 32 | 0xff)) != 0) return MsrResult::fault;
    evtsel_[core] = value;
    return MsrResult::handled;
  }
  if (m == msr::kQmCtr && monitors()) return MsrResult::fault;
  if (m >= msr::kL3Mask && m - msr::kL3Mask < mask_.size())
    return done(set_mask(m - msr::kL3Mask, value));
  if (m >= msr::kMbaDelay && m - msr::kMbaDelay < delay_.size())
    return done(set_delay(m - msr::kMbaDelay, value));
  return MsrResult::not_ours;
}

bool Rdt::set_mask(unsigned clos, std::uint64_t value) {
  if (value == 0 || (value & ~low_bits(config_.cbm_bits)) != 0 || !contiguous(value)) return false;
  mask_[clos] = value;
  unsigned ways = 0;
  for (unsigned n = 0; n < 32; n++) ways += all_ways_ >> n & 1;
  const unsigned each = ways / config_.cbm_bits;
  ways_[clos] = 0;
  for (unsigned i = 0; i < ways; i++)
    if (value >> (i / each) & 1) ways_[clos] |= std::uint32_t{1} << i;
  return true;
}

bool Rdt::set_delay(unsigned clos, std::uint64_t value) {
  if (value > config_.mba_max_delay) return false;
  delay_[clos] = value / config_.mba_step * config_.mba_step;
  factors_[clos] = 1 / rate_share(config_.throttle, static_cast<unsigned>(delay_[clos])) - 1;
  return true;
}

}  // namespace drfq::hardware
