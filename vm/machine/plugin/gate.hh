// SPDX-License-Identifier: GPL-2.0-only
// Who runs when, in simulated time: turns between vCPUs, sleep, idle, timers.
//
// A vCPU thread that waits here is in the middle of translated code, so QEMU
// counts it as running; whoever wants all vCPUs stopped would wait for ever. So
// no wait is longer than kPatience of host time: after that the vCPU leaves
// translated code, where QEMU can stop it, and comes back to wait on.
#ifndef DRFQ_PLUGIN_GATE_HH
#define DRFQ_PLUGIN_GATE_HH

#include <condition_variable>
#include <mutex>
#include <optional>
#include <ostream>
#include <vector>

#include "core.hh"
#include "timer.hh"

namespace drfq::plugin {

/// PAUSE of a Skylake core takes about as long as so many instructions.
inline constexpr std::uint64_t kPauseInsns = 140;

class Gate {
 public:
  Gate(machine::Machine &, unsigned cores);

  /// All clocks start at the given time. report, if any, gets a line each interval.
  void start(Ps at, std::ostream *report, Ps interval);

  /// Hands over what the core did, and waits until it may go on. Called between
  /// blocks: progress says how far the core is. False: that took too long; let QEMU
  /// stop the vCPU and ask again.
  [[nodiscard]] bool turn(Core &, const Progress &);

  /// Waits until no core lags behind this one, so that its counters are exact.
  /// False: as above.
  [[nodiscard]] bool catch_up(Core &, const Progress &);

  /// HLT. True: the vCPU shall really halt. False: it shall go on behind HLT, as if
  /// woken for nothing, because it is the last one awake and has moved time on.
  bool halt(Core &, const Progress &);

  /// The guest wrote a register of its local APIC.
  void apic_write(Core &, std::uint32_t offset, std::uint32_t value, Ps now);

  void write_report(std::ostream &);

 private:
  struct Seat {
    Timer timer;
    std::uint32_t apic_id = 0;
    bool adopted = false;  ///< its timer is ours
    bool asleep = true;
    bool waiting = false;
    /// While it waits, not for its turn, but for the slowest core to come as far
    /// as it is itself: its instructions so far.
    std::optional<std::uint64_t> catching;
    std::condition_variable go;
  };

  void adopt(Core &);
  void arrive(Core &);
  /// Whether the slowest core is as far as this one with so many instructions.
  bool is_caught_up(unsigned core, std::uint64_t insns) const {
    return machine_.horizon() >= machine_.now(core, insns);
  }
  void wake_ready(unsigned except);
  void deliver(Core &, Ps now);
  Ps next_due(unsigned core) const;
  void start_chunk(Core &, const Progress &);
  void report_until(Ps);

  machine::Machine &machine_;
  std::mutex mutex_;
  std::vector<Seat> seats_;
  unsigned awake_ = 0;
  std::ostream *report_ = nullptr;
  Ps interval_ = 0, next_report_ = kNever;
};

}  // namespace drfq::plugin

#endif
