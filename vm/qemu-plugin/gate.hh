// SPDX-License-Identifier: GPL-2.0-only
// Who runs when, in simulated time: turns between vCPUs, sleep, idle, timers.
//
// A vCPU thread that waits here is in the middle of translated code, so QEMU
// counts it as running; whoever wants all vCPUs stopped would wait for ever. So
// no wait is longer than kPatience of host time: after that the vCPU leaves
// translated code, where QEMU can stop it, and comes back to wait on.
//
// Who sends a halted core an interrupt calls it: from that moment of simulated time
// the core is awake, and the others wait until the host runs its thread; else a sender
// that spins for the answer would spend the host's time in its own. A core that does
// not come within kCallPatience is given up: its interrupts may be masked.
#ifndef DRFQ_PLUGIN_GATE_HH
#define DRFQ_PLUGIN_GATE_HH

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <ostream>
#include <vector>

#include "apic.hh"
#include "core.hh"
#include "timer.hh"

namespace drfq::plugin {

/// PAUSE of a Skylake core takes about as long as so many instructions.
inline constexpr std::uint64_t kPauseInsns = 140;

class Gate {
 public:
  /// How long, in the host's time, a called core is waited for.
  static constexpr std::chrono::milliseconds kCallPatience{200};

  Gate(machine::Machine &, unsigned cores, std::chrono::milliseconds call_patience = kCallPatience);

  /// All clocks start at the given time. report, if any, gets a line each interval.
  void start(Ps at, std::ostream *report, Ps interval);

  /// Hands over what the core did, and waits until it may go on. Called between
  /// blocks: progress says how far the core is. False: that took too long; let QEMU
  /// stop the vCPU and ask again.
  [[nodiscard]] bool turn(Core &, const Progress &);

  /// Waits until no core lags behind this one, so that its counters are exact.
  /// False: as above.
  [[nodiscard]] bool catch_up(Core &, const Progress &);

  /// What becomes of a HLT.
  enum class Halt : std::uint8_t {
    sleep,  ///< the vCPU shall really halt
    go_on,  ///< as if woken for nothing: the last one awake, it has moved time on
    again,  ///< the last one awake, it waits for one that was called
  };
  [[nodiscard]] Halt halt(Core &, const Progress &);

  /// The guest wrote a register of its local APIC.
  void apic_write(Core &, std::uint32_t offset, std::uint32_t value, Ps now);

  void write_report(std::ostream &);

 private:
  using HostClock = std::chrono::steady_clock;

  struct Seat {
    Timer timer;
    apic::Identity apic;
    std::uint32_t command_high = 0;
    bool adopted = false;  ///< its timer is ours
    bool asleep = true;
    /// Asleep, but called: when to give it up.
    std::optional<HostClock::time_point> called;
    bool waiting = false;
    /// While it waits, not for its turn, but for the slowest core to come as far
    /// as it is itself: its instructions so far.
    std::optional<std::uint64_t> catching;
    std::condition_variable go;
  };

  void adopt(Core &);
  void arrive(Core &);
  /// The core, if it is asleep, is awake in the machine from then on.
  void call(unsigned core, Ps at);
  void give_up_late();
  bool is_any_called() const;
  /// An interrupt command calls whom it is for.
  void send(unsigned from, std::uint32_t command, Ps now);
  /// Whether the slowest core is as far as this one with so many instructions.
  bool is_caught_up(unsigned core, std::uint64_t insns) const {
    return machine_.horizon() >= machine_.now(core, insns);
  }
  void wake_ready(unsigned except);
  /// Waits, for at most so much of the host's time, until the condition is met, which
  /// is asked whenever another core notifies this one: whether it was. If not, called
  /// cores that are late are given up.
  template <typename Condition>
  bool wait(std::unique_lock<std::mutex> *, unsigned core, std::chrono::nanoseconds patience,
            const Condition &);
  void deliver(Core &, Ps now);
  Ps next_due(unsigned core) const;
  void start_chunk(Core &, const Progress &);
  void pass_time(Core &, const Progress &, std::unique_lock<std::mutex> *);
  void report_until(Ps);

  machine::Machine &machine_;
  const std::chrono::milliseconds call_patience_;
  std::mutex mutex_;
  std::vector<Seat> seats_;
  unsigned awake_ = 0;
  std::ostream *report_ = nullptr;
  Ps interval_ = 0, next_report_ = kNever;
};

}  // namespace drfq::plugin

#endif
