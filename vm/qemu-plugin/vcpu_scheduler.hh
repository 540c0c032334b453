// SPDX-License-Identifier: GPL-2.0-only
// Decides which vCPU runs when, in simulated time: turns, halts, idle time and timer interrupts.
//
// Turns. Each vCPU may run up to a quantum of simulated time ahead of the slowest running one. One
// that is further ahead waits here until the others have advanced. It waits in the middle of
// translated code, where QEMU cannot stop it. So a wait takes at most kMaxHostWait of host time.
// After that the vCPU leaves translated code, where QEMU can stop it, and asks again.
//
// Wake-ups. An IPI wakes a halted vCPU at the sender's simulated time. A timer or a device does so
// when its interrupt is due. No vCPU wakes before the slowest clock. From that time on its wake-up
// is pending and the others wait for it, until the host runs its thread. Without this wait
// a sender that spins for the answer would convert host time into simulated time. A vCPU may have
// its interrupts masked and stay halted, so a wake-up that is pending for longer than wake_timeout
// of host time is cancelled.
#ifndef DRFQ_PLUGIN_VCPU_SCHEDULER_HH
#define DRFQ_PLUGIN_VCPU_SCHEDULER_HH

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <vector>

#include "apic.hh"
#include "apic_timer.hh"
#include "vcpu.hh"

namespace drfq::plugin {

class VcpuScheduler {
 public:
  static constexpr std::chrono::milliseconds kWakeTimeout{200};

  /// wake_timeout: how long, in host time, the others wait for a pending wake-up.
  VcpuScheduler(hardware::HardwareModel &, unsigned vcpus,
                std::chrono::milliseconds wake_timeout = kWakeTimeout);

  /// A device whose transfers the hardware model simulates.
  class Device {
   public:
    virtual ~Device() = default;
    /// A transfer is complete: move its data and interrupt its target; see interrupts(). Called on
    /// the thread of the target, or on that of another vCPU while the target is halted. now: when
    /// it comes to pass.
    virtual void finish(Vcpu &, const hardware::FinishedTransfer &, Ps now) = 0;
  };
  /// Call it before start().
  void attach(Device *device) { device_ = device; }
  /// The vCPU that a message-signalled interrupt to this address is for; 0 if there is none.
  unsigned target(std::uint64_t address);
  /// A message-signalled interrupt to this address follows: it wakes the vCPU that it is for.
  void interrupts(std::uint64_t address, Ps now);

  /// Starts all clocks at the given time. ground_truth: gets a line after each interval of
  /// simulated time, or one for several that pass at once; may be null. interval: above 0 if it is
  /// not null.
  void start(Ps at, std::ostream *ground_truth, Ps interval);

  /// Hands over what the vCPU did and waits until it may continue. Call it between blocks.
  /// False: the wait exceeded kMaxHostWait. Let QEMU stop the vCPU, then ask again.
  [[nodiscard]] bool take_turn(Vcpu &, const RetiredInsns &);

  /// Waits until no vCPU lags behind this one, so that its counters are exact. False: as above.
  [[nodiscard]] bool catch_up(Vcpu &, const RetiredInsns &);

  /// What the plugin must do with a HLT.
  enum class Halt : std::uint8_t {
    sleep,  ///< let QEMU halt the vCPU
    skip,   ///< skip it: no other vCPU was awake, and the scheduler has advanced time
    retry,  ///< execute it again: no other vCPU is awake, but a wake-up is pending
  };
  [[nodiscard]] Halt halt(Vcpu &, const RetiredInsns &);

  /// The guest wrote a register of its local APIC.
  void apic_write(Vcpu &, std::uint32_t offset, std::uint32_t value, Ps now);

  void write_ground_truth(std::ostream &);

 private:
  using HostClock = std::chrono::steady_clock;

  struct VcpuState {
    ApicTimer timer;
    std::multimap<Ps, hardware::FinishedTransfer> finished;  ///< by when to signal them
    /// The earliest event that this vCPU waits for.
    Ps due() const {
      return finished.empty() ? timer.due() : std::min(timer.due(), finished.begin()->first);
    }
    apic::Identity apic;
    std::uint32_t command_high = 0;
    bool owns_timer = false;  ///< QEMU's timer is stopped and ours has replaced it
    bool asleep = true;
    /// While a wake-up is pending: when to cancel it.
    std::optional<HostClock::time_point> wake_deadline;
    bool waiting = false;
    /// Set while it waits in catch_up() instead of for its turn: its retired instructions.
    std::optional<std::uint64_t> catch_up_insns;
    std::condition_variable may_continue;
  };

  void take_over_timer(Vcpu &);
  /// Tells the hardware model of the vCPU's pauses. Call it before the vCPU's clock, counters or
  /// halt matter.
  void charge_pauses(Vcpu &, const RetiredInsns &);
  /// Notes that a vCPU which was halted runs again.
  void finish_wake(Vcpu &);
  /// Starts a wake-up of a halted vCPU at this time, or at the slowest clock if that is later. Does
  /// nothing if it is awake.
  void begin_wake(unsigned vcpu, Ps at);
  void cancel_late_wakes();
  bool is_wake_pending() const;
  /// Begins the wake-up of all vCPUs that an interrupt command addresses.
  void wake_targets(unsigned from, std::uint32_t command, Ps now);
  /// Whether the slowest vCPU has reached the clock that this one has after insns instructions.
  bool is_caught_up(unsigned vcpu, std::uint64_t insns) const {
    return hardware_.slowest_clock() >= hardware_.now(vcpu, insns);
  }
  void notify_ready(unsigned except);
  /// Waits until the condition holds, at most for this much host time. It is evaluated whenever
  /// another vCPU notifies this one. Returns whether it held; if not, cancels late wake-ups.
  template <typename Condition>
  bool wait(std::unique_lock<std::mutex> *, unsigned vcpu, std::chrono::nanoseconds max_wait,
            const Condition &);
  void deliver_due(Vcpu &, Ps now);
  void finish_transfers(Vcpu &, unsigned target, Ps now);
  void take_finished();
  bool device_acts() const;
  Ps next_due(unsigned vcpu, Ps now) const;
  void start_chunk(Vcpu &, const RetiredInsns &);
  void skip_idle_time(Vcpu &, const RetiredInsns &);
  void pass_idle_time(Vcpu &, const RetiredInsns &, std::unique_lock<std::mutex> *);
  void write_ground_truth_until(Ps);

  hardware::HardwareModel &hardware_;
  const std::chrono::milliseconds wake_timeout_;
  std::mutex mutex_;
  std::vector<VcpuState> states_;
  unsigned awake_ = 0;
  std::uint64_t wakes_ = 0;  // wake-ups so far
  Device *device_ = nullptr;
  std::ostream *ground_truth_ = nullptr;
  Ps interval_ = 0, next_line_ = kNever;
};

}  // namespace drfq::plugin

#endif
