// SPDX-License-Identifier: GPL-2.0-only
// Attribution (thesis 3.4, 3.5, 4.4). The labels of a packet tell which process
// it is charged to, and the virtual time that it is served at.
#ifndef DRFQ_ATTRIBUTION_HH
#define DRFQ_ATTRIBUTION_HH

#include "registers.hh"

namespace drfq {

/// The labels a packet carries. Either, both or neither may be valid.
struct Label {
  static constexpr std::uint32_t kNoCore = ~std::uint32_t{0};
  std::uint32_t core = kNoCore;  ///< coreId of a CPU's packet
  Pid substream = 0;             ///< subStreamId of a device's packet, 0: none

  static Label of_core(std::uint32_t core) { return {core, 0}; }
  static Label of_substream(Pid pid) { return {kNoCore, pid}; }
};

/// Which process pays for a packet, and the virtual time that it is served at.
struct Attribution {
  Pid pid = 0;      ///< 0: unattributed
  VTime vtime = 0;  ///< 0 when unattributed: the highest priority
};

/// A valid substream decides, because only a device sets one; otherwise the
/// core does. Ids outside the registers, and a core on which pid 0 runs, leave
/// the packet unattributed.
inline Attribution attribute(const RegisterFile &regs, const Label &label) {
  if (label.substream != 0 && label.substream < kPids)
    return {label.substream, regs.vtime_pid(label.substream)};
  if (label.core < regs.cores()) {
    const Pid pid = regs.pid_core(label.core);
    if (pid != 0) return {pid, regs.vtime_core(label.core)};
  }
  return {};
}

}  // namespace drfq

#endif
