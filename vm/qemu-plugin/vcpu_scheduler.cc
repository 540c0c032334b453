// SPDX-License-Identifier: GPL-2.0-only
#include "vcpu_scheduler.hh"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace drfq::plugin {

namespace {

/// Longest wait inside translated code, in host time.
constexpr auto kMaxHostWait = std::chrono::milliseconds(2);
/// When all vCPUs are idle, the guest checks for device interrupts this often, in host time.
constexpr auto kIdleStep = std::chrono::milliseconds(1);

/// Idle time that passes at once while the device acts. Other vCPUs can wake up in between.
constexpr Ps kMaxSkip = kPsPerMs;

/// Shortest chunk. Shorter ones would spend more host time on turns than on instructions.
constexpr std::uint64_t kMinChunkInsns = 100;

std::uint32_t apic_read(Vcpu &vcpu, std::uint32_t offset) {
  std::uint32_t value = 0;
  g_byte_array_set_size(vcpu.buffer, 0);
  if (qemu_plugin_read_memory_hwaddr(apic::kBase + offset, vcpu.buffer, sizeof value) == 0)
    std::memcpy(&value, vcpu.buffer->data, sizeof value);
  return value;
}

void physical_write(Vcpu &vcpu, std::uint64_t physical, std::uint32_t value) {
  g_byte_array_set_size(vcpu.buffer, 0);
  g_byte_array_append(vcpu.buffer, reinterpret_cast<const std::uint8_t *>(&value), sizeof value);
  qemu_plugin_write_memory_hwaddr(physical, vcpu.buffer);
}

/// Sends a message-signalled interrupt, as a device does.
void send_interrupt(Vcpu &from, apic::Identity to, std::uint8_t vector) {
  physical_write(from, apic::kBase | std::uint64_t{to.physical} << 12, vector);
}

}  // namespace

VcpuScheduler::VcpuScheduler(hardware::HardwareModel &m, unsigned cores,
                             std::chrono::milliseconds wake_timeout)
    : hardware_(m), wake_timeout_(wake_timeout), states_(cores) {}

void VcpuScheduler::start(Ps at, std::ostream *ground_truth, Ps interval) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hardware_.start(at);
  for (unsigned c = 0; c < states_.size(); c++) hardware_.sleep(c, RetiredInsns{});
  ground_truth_ = ground_truth;
  interval_ = interval;
  next_line_ = ground_truth == nullptr ? kNever : at + interval;
}

/// Replaces QEMU's timer by ours, with the time that is left. Calls QEMU without holding mutex_,
/// because QEMU takes its own lock.
void VcpuScheduler::take_over_timer(Vcpu &vcpu) {
  const auto id = static_cast<std::uint8_t>(apic_read(vcpu, apic::kId) >> 24);
  const auto logical = static_cast<std::uint8_t>(apic_read(vcpu, apic::kLogicalDestination) >> 24);
  const bool enabled = (apic_read(vcpu, apic::kSpuriousInterrupt) & apic::kSoftwareEnable) != 0;
  const std::uint32_t lvt = apic_read(vcpu, apic::kLvtTimer);
  const std::uint32_t divide = apic_read(vcpu, apic::kDivide);
  const std::uint32_t count = apic_read(vcpu, apic::kInitialCount);
  const std::uint32_t left = apic_read(vcpu, apic::kCurrentCount);
  if (count != 0) physical_write(vcpu, apic::kBase + apic::kInitialCount, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  VcpuState &s = states_[vcpu.index];
  s.owns_timer = true;
  s.apic = {id, logical, enabled};
  s.timer.write_lvt(lvt);
  s.timer.write_divide(divide);
  s.timer.take_over(count, left, hardware_.slowest_clock());
}

void VcpuScheduler::finish_wake(Vcpu &vcpu) {
  VcpuState &s = states_[vcpu.index];
  if (!s.asleep) return;
  s.asleep = false;
  awake_++;
  wakes_++;
  if (s.wake_deadline.has_value())
    s.wake_deadline.reset();
  else
    hardware_.wake(vcpu.index, hardware_.slowest_clock());
  // The vCPU that advances time for an idle machine can stop doing so.
  for (VcpuState &other : states_)
    if (other.waiting) other.may_continue.notify_one();
}

void VcpuScheduler::begin_wake(unsigned vcpu, Ps at) {
  VcpuState &s = states_[vcpu];
  if (!s.asleep || s.wake_deadline.has_value()) return;
  s.wake_deadline = HostClock::now() + wake_timeout_;
  // A sender that is blocked on memory has a clock without the stall so far. Memory and the slowest
  // vCPU may be beyond it already.
  hardware_.wake(vcpu, std::max(at, hardware_.slowest_clock()));
}

bool VcpuScheduler::is_wake_pending() const {
  return std::any_of(states_.begin(), states_.end(),
                     [](const VcpuState &s) { return s.wake_deadline.has_value(); });
}

void VcpuScheduler::cancel_late_wakes() {
  for (unsigned c = 0; c < states_.size(); c++) {
    VcpuState &s = states_[c];
    if (!s.wake_deadline.has_value() || HostClock::now() < *s.wake_deadline) continue;
    s.wake_deadline.reset();
    hardware_.sleep(c, RetiredInsns{});
  }
}

void VcpuScheduler::wake_targets(unsigned from, std::uint32_t command, Ps now) {
  for (unsigned c = 0; c < states_.size(); c++)
    if (states_[c].owns_timer &&
        apic::wakes(command, states_[from].command_high, c == from, states_[c].apic))
      begin_wake(c, now);
}

void VcpuScheduler::notify_ready(unsigned except) {
  for (unsigned c = 0; c < states_.size(); c++) {
    VcpuState &s = states_[c];
    if (c == except || !s.waiting) continue;
    const bool ready =
        s.catch_up_insns.has_value() ? is_caught_up(c, *s.catch_up_insns) : hardware_.may_run(c);
    if (ready) s.may_continue.notify_one();
  }
}

template <typename Condition>
bool VcpuScheduler::wait(std::unique_lock<std::mutex> *lock, unsigned vcpu,
                         std::chrono::nanoseconds max_wait, const Condition &condition) {
  VcpuState &s = states_[vcpu];
  s.waiting = true;
  const bool met = s.may_continue.wait_for(*lock, max_wait, condition);
  s.waiting = false;
  if (!met) cancel_late_wakes();
  return met;
}

/// The earliest event after which this vCPU must look again: its own and those of halted vCPUs. A
/// target may halt before its completion is due, so the vCPU also stops at those of the others.
Ps VcpuScheduler::next_due(unsigned vcpu, Ps now) const {
  Ps due = states_[vcpu].due();
  for (const VcpuState &s : states_) {
    if (s.asleep) due = std::min(due, s.due());
    const auto later = s.finished.upper_bound(now);
    if (later != s.finished.end()) due = std::min(due, later->first);
  }
  return due;
}

void VcpuScheduler::start_chunk(Vcpu &vcpu, const RetiredInsns &retired) {
  const Ps now = hardware_.now(vcpu.index, retired.total());
  const Ps due = next_due(vcpu.index, now);
  const Ps room = std::min(hardware_.description().quantum, due > now ? due - now : 0);
  const std::uint64_t insns = room * 1000 / hardware_.description().fs_per_insn();
  vcpu.counters->turn_counter = kTurnThreshold - std::max(insns, kMinChunkInsns);
}

/// Delivers what is due: timer interrupts and completions of the device. What is for a halted vCPU
/// comes to pass when it is due, because this vCPU's clock may lead by a quantum. Calls QEMU
/// without holding mutex_, because QEMU takes its own lock.
void VcpuScheduler::deliver_due(Vcpu &vcpu, Ps now) {
  for (unsigned c = 0; c < states_.size(); c++) {
    if (device_ != nullptr) finish_transfers(vcpu, c, now);
    std::uint8_t vector = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      VcpuState &s = states_[c];
      const Ps due = s.timer.due();
      if ((c != vcpu.index && !s.asleep) || due > now || !s.timer.fire()) continue;
      vector = s.timer.vector();
      begin_wake(c, due);
    }
    send_interrupt(vcpu, states_[c].apic, vector);
  }
}

void VcpuScheduler::finish_transfers(Vcpu &vcpu, unsigned target, Ps now) {
  for (;;) {
    hardware::FinishedTransfer t;
    Ps at = now;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      VcpuState &s = states_[target];
      if (target != vcpu.index && !s.asleep) return;
      if (s.finished.empty() || s.finished.begin()->first > now) return;
      t = s.finished.begin()->second;
      s.finished.erase(s.finished.begin());
      if (target != vcpu.index) at = std::max(t.due, hardware_.slowest_clock());
    }
    device_->finish(vcpu, t, at);
  }
}

/// Schedules the completions that the hardware model has found.
void VcpuScheduler::take_finished() {
  if (device_ == nullptr) return;
  for (const hardware::FinishedTransfer &t : hardware_.take_finished())
    states_[t.target].finished.emplace(t.due, t);
}

unsigned VcpuScheduler::target(std::uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (unsigned c = 0; c < states_.size(); c++)
    if (states_[c].owns_timer && apic::is_addressed(address, states_[c].apic)) return c;
  return 0;
}

void VcpuScheduler::interrupts(std::uint64_t address, Ps now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (unsigned c = 0; c < states_.size(); c++)
    if (states_[c].owns_timer && apic::is_addressed(address, states_[c].apic)) begin_wake(c, now);
}

void VcpuScheduler::write_ground_truth_until(Ps now) {
  if (next_line_ > now) return;
  // Time can pass several intervals at once. One line covers them.
  next_line_ += ((now - next_line_) / interval_ + 1) * interval_;
  hardware_.write_ground_truth(*ground_truth_);
  ground_truth_->flush();
}

void VcpuScheduler::charge_pauses(Vcpu &vcpu, const RetiredInsns &retired) {
  const auto pauses = std::exchange(vcpu.pauses, {});
  for (const Ring ring : {Ring::kernel, Ring::user})
    if (const std::uint64_t n = pauses[static_cast<unsigned>(ring)]; n != 0)
      hardware_.add_busy_time(vcpu.index, retired,
                              n * kPauseInsns * hardware_.description().fs_per_insn() / 1000, ring);
}

bool VcpuScheduler::take_turn(Vcpu &vcpu, const RetiredInsns &retired) {
  if (!states_[vcpu.index].owns_timer) take_over_timer(vcpu);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    finish_wake(vcpu);
    charge_pauses(vcpu, retired);
    const hardware::SyncResult t = hardware_.sync(vcpu.index, retired);
    take_finished();
    notify_ready(vcpu.index);
    write_ground_truth_until(hardware_.slowest_clock());
    if (t == hardware::SyncResult::must_wait) {
      const bool ready =
          wait(&lock, vcpu.index, kMaxHostWait, [&] { return hardware_.may_run(vcpu.index); });
      if (!ready) return false;
    }
    start_chunk(vcpu, retired);
  }
  deliver_due(vcpu, hardware_.now(vcpu.index, retired.total()));
  return true;
}

bool VcpuScheduler::catch_up(Vcpu &vcpu, const RetiredInsns &retired) {
  std::unique_lock<std::mutex> lock(mutex_);
  finish_wake(vcpu);
  charge_pauses(vcpu, retired);
  hardware_.sync(vcpu.index, retired);
  take_finished();
  notify_ready(vcpu.index);
  const std::uint64_t insns = retired.total();
  const auto there = [&] { return is_caught_up(vcpu.index, insns); };
  if (there()) return true;
  VcpuState &s = states_[vcpu.index];
  s.catch_up_insns = insns;
  const bool ok = wait(&lock, vcpu.index, kMaxHostWait, there);
  s.catch_up_insns.reset();
  return ok;
}

/// Whether the device has unfinished commands, or completions to signal.
bool VcpuScheduler::device_acts() const {
  if (device_ == nullptr) return false;
  return hardware_.device_is_busy() ||
         std::any_of(states_.begin(), states_.end(),
                     [](const VcpuState &s) { return !s.finished.empty(); });
}

/// Only the device acts: time jumps to its next completion, or to the next timer.
void VcpuScheduler::skip_idle_time(Vcpu &vcpu, const RetiredInsns &retired) {
  const Ps quantum = hardware_.description().quantum;
  Ps now = hardware_.now(vcpu.index, retired.total());
  const Ps end = now + kMaxSkip;
  while (now < end) {
    const Ps due = next_due(vcpu.index, now);
    if (due <= now) return;
    now = std::min({due, end, hardware_.device_is_busy() ? now + quantum : end});
    // The vCPU sleeps meanwhile, so that idle time counts no cycles.
    hardware_.sleep(vcpu.index, retired);
    hardware_.wake(vcpu.index, now);
    take_finished();
  }
}

/// All other vCPUs are halted: simulated time advances at the host's pace, up to the next timer. A
/// vCPU that a device in host time wakes meanwhile goes on from this one's clock, so neither moves.
/// It may have halted again, and other timers, transfers and wake-ups may be pending then.
void VcpuScheduler::pass_idle_time(Vcpu &vcpu, const RetiredInsns &retired,
                                   std::unique_lock<std::mutex> *lock) {
  if (device_acts()) return skip_idle_time(vcpu, retired);
  const Ps now = hardware_.now(vcpu.index, retired.total());
  const Ps due = next_due(vcpu.index, now);
  const Ps left = due > now ? due - now : 0;
  const auto begin = HostClock::now();
  const std::uint64_t wakes = wakes_;
  const auto step = std::min<std::chrono::nanoseconds>(
      kIdleStep, std::chrono::nanoseconds(left == kNever ? Ps{1} << 40 : left / kPsPerNs));
  if (wait(lock, vcpu.index, step, [&] { return wakes_ != wakes; })) return;
  const auto waited = std::min<std::chrono::nanoseconds>(HostClock::now() - begin, kIdleStep);
  const Ps passed = static_cast<Ps>(waited.count()) * kPsPerNs;
  // The vCPU sleeps meanwhile, so that idle time counts no cycles.
  hardware_.sleep(vcpu.index, retired);
  hardware_.wake(vcpu.index, now + std::min(passed, left));
}

VcpuScheduler::Halt VcpuScheduler::halt(Vcpu &vcpu, const RetiredInsns &retired) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    finish_wake(vcpu);
    charge_pauses(vcpu, retired);
    hardware_.sync(vcpu.index, retired);
    take_finished();
    if (awake_ == 1 && is_wake_pending())
      wait(&lock, vcpu.index, kMaxHostWait, [&] { return awake_ > 1; });
    if (awake_ > 1) {
      states_[vcpu.index].asleep = true;
      awake_--;
      hardware_.sleep(vcpu.index, retired);
      notify_ready(vcpu.index);
      // The first block after the halt must call take_turn().
      vcpu.request_turn();
      return Halt::sleep;
    }
    if (is_wake_pending()) return Halt::retry;
    pass_idle_time(vcpu, retired, &lock);
    write_ground_truth_until(hardware_.slowest_clock());
    start_chunk(vcpu, retired);
  }
  deliver_due(vcpu, hardware_.now(vcpu.index, retired.total()));
  return Halt::skip;
}

void VcpuScheduler::apic_write(Vcpu &vcpu, std::uint32_t offset, std::uint32_t value, Ps now) {
  if (!states_[vcpu.index].owns_timer) take_over_timer(vcpu);
  if (offset == apic::kInitialCount && value != 0) physical_write(vcpu, apic::kBase + offset, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  VcpuState &s = states_[vcpu.index];
  if (offset == apic::kLogicalDestination) s.apic.logical = static_cast<std::uint8_t>(value >> 24);
  if (offset == apic::kSpuriousInterrupt) s.apic.enabled = (value & apic::kSoftwareEnable) != 0;
  if (offset == apic::kCommandHigh) s.command_high = value;
  if (offset == apic::kCommand) wake_targets(vcpu.index, value, now);
  ApicTimer &t = s.timer;
  if (offset == apic::kLvtTimer) t.write_lvt(value);
  if (offset == apic::kDivide) t.write_divide(value);
  if (offset != apic::kInitialCount) return;
  t.start(value, now);
  // The present chunk may end after the timer is due.
  vcpu.request_turn();
}

void VcpuScheduler::write_ground_truth(std::ostream &out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hardware_.write_ground_truth(out);
  out.flush();
}

}  // namespace drfq::plugin
