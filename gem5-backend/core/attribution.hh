// SPDX-License-Identifier: GPL-2.0-only
// Attribution (thesis 3.4, 3.5, 4.4). The labels of a packet tell which process
// it is charged to, and the virtual time that it is served at.
#ifndef DRFQ_ATTRIBUTION_HH
#define DRFQ_ATTRIBUTION_HH

#include <algorithm>

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

/// The id of everything that has no register of its own. The agent assigns it to no task.
inline constexpr Pid kSharedPid = 1;

/// The lowest virtual time that the last packets had, from 256 to 512 of them. Refused packets
/// count, so no order of service can hide one.
class LowestLately {
 public:
  void came(VTime vtime) {
    now_ = std::min(now_, vtime);
    if (--left_ != 0) return;
    left_ = kPackets;
    before_ = now_;
    now_ = kNone;
  }
  /// 0 before the first packet.
  VTime get() const {
    const VTime lowest = std::min(now_, before_);
    return lowest == kNone ? 0 : lowest;
  }

  /// The state (state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.now_, self.before_, self.left_);
  }

 private:
  static constexpr VTime kNone = ~VTime{0};
  static constexpr unsigned kPackets = 256;
  VTime now_ = kNone, before_ = kNone;
  unsigned left_ = kPackets;
};

/// Which process pays for a packet, and the virtual time that it is served at.
struct Attribution {
  Pid pid = 0;         ///< 0: unattributed
  VTime vtime = 0;     ///< 0 without a label: the highest priority
  bool known = false;  ///< whether a register gave the virtual time
};

/// A substream decides, because only a device sets one; otherwise the core does. An id outside
/// the registers belongs to kSharedPid.
inline Pid owner_of(const RegisterFile &regs, const Label &label) {
  if (label.substream != 0) return label.substream < kPids ? label.substream : kSharedPid;
  if (label.core == Label::kNoCore) return 0;
  return label.core < regs.cores() ? regs.pid_core(label.core) : kSharedPid;
}

/// A core's packet has the core's virtual time, whatever runs there (thesis 4.4). A virtual time
/// that was not written since the start is not 0, which would put its owner first for ever.
/// unknown: what it is instead, the lowest virtual time that came lately.
inline Attribution attribute(const RegisterFile &regs, const Label &label, VTime unknown) {
  const Pid pid = owner_of(regs, label);
  if (label.substream != 0) {
    const bool known = regs.knows_pid(pid);
    return {pid, known ? regs.vtime_pid(pid) : unknown, known};
  }
  if (label.core == Label::kNoCore) return {};
  const bool known = label.core < regs.cores() && regs.knows_core(label.core);
  return {pid, known ? regs.vtime_core(label.core) : unknown, known};
}

}  // namespace drfq

#endif
