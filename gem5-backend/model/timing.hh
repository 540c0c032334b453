// SPDX-License-Identifier: GPL-2.0-only
// What one DRAM channel is: its geometry, its timing and its page policy.
#ifndef DRFQ_TIMING_HH
#define DRFQ_TIMING_HH

#include <string>

#include "../core/pick.hh"
#include "../core/units.hh"

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

/// Timing names are JEDEC's. _l: between bursts of one bank group; equal to
/// the short value on a device without groups.
struct Timing {
  std::string name;
  unsigned burst_bytes = 32;
  unsigned row_bytes = 1024;
  unsigned ranks = 1;
  unsigned banks = 8;   ///< of one rank, all groups
  unsigned groups = 1;  ///< bank groups of one rank
  unsigned rows = 65536;
  AddressMap map = AddressMap::row_bank_column;
  PagePolicy page = PagePolicy::open_adaptive;
  unsigned accesses_per_row = 16;  ///< close after so many; 0: no limit

  Ps ck = 0;
  Ps rcd = 0, cl = 0, cwl = 0, rp = 0, ras = 0;
  Ps rrd = 0, rrd_l = 0, xaw = 0;  ///< xaw: window of activation_limit activates (tFAW)
  unsigned activation_limit = 4;   ///< 0: no window
  Ps wtr = 0, wtr_l = 0, rtw = 0, rtp = 0, wr = 0;
  Ps burst = 0, ccd_l = 0, ccd_l_wr = 0;
  Ps cs = 0;  ///< extra gap between bursts of two ranks
  Ps refi = 0, rfc = 0;
  Ps frontend = 10 * kPsPerNs;  ///< the controller's own latency on arrival
  Ps backend = 10 * kPsPerNs;   ///< and on the way of read data back

  /// Peak of the data bus.
  double bytes_per_ns() const { return burst_bytes * 1e3 / static_cast<double>(burst); }
};

/// LPDDR2-1066, one x32 device: the thesis' memory (Table 5.1), JESD209-2
/// figures for a 4 Gb S4 part. CWL is taken equal to CL as gem5 does for it.
inline Timing lpddr2_1066_x32() {
  Timing t;
  t.name = "lpddr2-1066-x32";
  t.ck = 1876;
  t.rcd = t.cl = t.cwl = t.rp = 15000;
  t.ras = 42000;
  t.rrd = t.rrd_l = 10000;
  t.xaw = 50000;
  t.wtr = t.wtr_l = 7500;
  t.rtw = 3750;
  t.rtp = 11256;
  t.wr = 15000;
  t.burst = t.ccd_l = t.ccd_l_wr = 7500;
  t.cs = 3750;
  t.refi = 3900000;
  t.rfc = 130000;
  return t;
}

/// DDR4-2400 (17-17-17), eight x8 devices on a 64-bit channel, JESD79-4.
inline Timing ddr4_2400() {
  Timing t;
  t.name = "ddr4-2400";
  t.burst_bytes = 64;
  t.row_bytes = 8192;
  t.banks = 16;
  t.groups = 4;
  t.map = AddressMap::row_bank_column_group;
  t.ck = 833;
  t.rcd = t.cl = t.rp = 14160;
  t.cwl = 9996;
  t.ras = 32000;
  t.rrd = 3332;
  t.rrd_l = 4900;
  t.xaw = 21000;
  t.wtr = 2500;
  t.wtr_l = 7500;
  t.rtw = 1666;
  t.rtp = 7500;
  t.wr = 15000;
  t.burst = 3332;
  t.ccd_l = t.ccd_l_wr = 5000;
  t.cs = 1666;
  t.refi = 7800000;
  t.rfc = 350000;
  return t;
}

/// DDR5-4800B (40-39-39), one 32-bit subchannel of four x8 devices, JESD79-5.
inline Timing ddr5_4800() {
  Timing t;
  t.name = "ddr5-4800";
  t.burst_bytes = 64;
  t.row_bytes = 4096;
  t.banks = 32;
  t.groups = 8;
  t.map = AddressMap::row_bank_column_group;
  t.ck = 416;
  t.cl = 16640;
  t.cwl = 15808;
  t.rcd = t.rp = 16224;
  t.ras = 32000;
  t.rrd = 3328;
  t.rrd_l = 5000;
  t.xaw = 13312;
  t.wtr = 2500;
  t.wtr_l = 10000;
  t.rtw = 832;
  t.rtp = 7500;
  t.wr = 30000;
  t.burst = 3328;
  t.ccd_l = 5000;
  t.ccd_l_wr = 10000;
  t.cs = 832;
  t.refi = 3900000;
  t.rfc = 295000;
  return t;
}

/// Finds a preset; false when there is none of that name.
inline bool timing_by_name(const std::string &name, Timing *out) {
  for (const Timing &t : {lpddr2_1066_x32(), ddr4_2400(), ddr5_4800()})
    if (t.name == name) {
      *out = t;
      return true;
    }
  return false;
}

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
