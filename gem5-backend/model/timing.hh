// SPDX-License-Identifier: GPL-2.0-only
// What one DRAM channel is: its geometry, its timing and its page policy.
#ifndef DRFQ_TIMING_HH
#define DRFQ_TIMING_HH

#include <string>

#include "core/pick.hh"
#include "core/units.hh"

namespace drfq {

/// Which bits of a burst address choose what, from the most significant down.
enum class AddressMap : std::uint8_t {
  row_bank_column,        ///< neighbours share a row (gem5's RoRaBaCoCh)
  row_bank_column_group,  ///< neighbours go to different bank groups
};

/// When a row is closed after an access.
enum class PagePolicy : std::uint8_t {
  open,           ///< never
  open_adaptive,  ///< when no waiting burst hits it and one wants another row of the bank
  closed,         ///< always
};

/// Timing names are JEDEC's; interface/dram_presets.toml has values. _l: between bursts of one bank
/// group; equal to the short value on a device without groups.
struct Timing {
  std::string name;
  unsigned burst_bytes = 0;
  unsigned row_bytes = 0;
  unsigned ranks = 0;
  unsigned banks = 0;   ///< of one rank, all groups
  unsigned groups = 0;  ///< bank groups of one rank
  unsigned rows = 0;
  AddressMap map = AddressMap::row_bank_column;
  PagePolicy page = PagePolicy::open_adaptive;
  unsigned accesses_per_row = 0;  ///< close after so many; 0: no limit

  Ps ck = 0;
  Ps rcd = 0, cl = 0, cwl = 0, rp = 0, ras = 0;
  Ps rrd = 0, rrd_l = 0, faw = 0;  ///< faw: window of activation_limit activates
  unsigned activation_limit = 0;   ///< 0: no window
  Ps wtr = 0, wtr_l = 0, rtw = 0, rtp = 0, wr = 0;
  Ps burst = 0, ccd_l = 0, ccd_l_wr = 0;
  Ps cs = 0;  ///< extra gap between bursts of two ranks
  Ps refi = 0, rfc = 0;
  Ps frontend = 0;  ///< the controller's own latency on arrival
  Ps backend = 0;   ///< and on the way of read data back

  std::uint64_t capacity_bytes() const { return std::uint64_t{ranks} * banks * rows * row_bytes; }

  /// Peak of the data bus.
  double bytes_per_ns() const { return burst_bytes * 1e3 / static_cast<double>(burst); }
};

/// Every time of a Timing but the clock, by JEDEC's name.
struct TimingField {
  const char *name;
  Ps Timing::*field;
};
inline constexpr TimingField kTimingFields[] = {
    {"tRCD", &Timing::rcd},        {"tCL", &Timing::cl},
    {"tCWL", &Timing::cwl},        {"tRP", &Timing::rp},
    {"tRAS", &Timing::ras},        {"tRRD", &Timing::rrd},
    {"tRRD_L", &Timing::rrd_l},    {"tFAW", &Timing::faw},
    {"tWTR", &Timing::wtr},        {"tWTR_L", &Timing::wtr_l},
    {"tRTW", &Timing::rtw},        {"tRTP", &Timing::rtp},
    {"tWR", &Timing::wr},          {"tBURST", &Timing::burst},
    {"tCCD_L", &Timing::ccd_l},    {"tCCD_L_WR", &Timing::ccd_l_wr},
    {"tCS", &Timing::cs},          {"tREFI", &Timing::refi},
    {"tRFC", &Timing::rfc},        {"frontend", &Timing::frontend},
    {"backend", &Timing::backend},
};

/// What is wrong with a description; empty when nothing is.
inline std::string check(const Timing &t) {
  const auto power_of_two = [](unsigned v) { return v != 0 && (v & (v - 1)) == 0; };
  if (!power_of_two(t.burst_bytes) || t.burst_bytes < 8 || t.burst_bytes > 256)
    return "burst_bytes must be a power of two from 8 to 256";
  if (!power_of_two(t.row_bytes) || t.row_bytes < t.burst_bytes || t.row_bytes > (1u << 20))
    return "row_bytes must be a power of two from one burst to 1 MiB";
  if (!power_of_two(t.banks) || !power_of_two(t.ranks) || t.banks > kBanksMax ||
      t.ranks > kBanksMax || t.banks * t.ranks > kBanksMax)
    return "banks and ranks must be powers of two, at most 256 banks in all";
  if (!power_of_two(t.groups) || t.groups > t.banks) return "groups must divide the banks";
  if (!power_of_two(t.rows)) return "rows must be a power of two";
  if (t.activation_limit > 16) return "activation_limit must be at most 16";
  if (t.burst == 0 || t.refi == 0) return "burst and refi must not be 0";
  if (t.rfc + t.rp >= t.refi) return "rfc + rp must be below refi";
  if (t.cl + t.burst + t.rtw < t.cwl) return "cwl is larger than cl + burst + rtw";
  return {};
}

}  // namespace drfq

#endif
