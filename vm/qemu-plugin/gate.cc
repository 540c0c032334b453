// SPDX-License-Identifier: GPL-2.0-only
#include "gate.hh"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace drfq::plugin {

namespace {

constexpr auto kPatience = std::chrono::milliseconds(2);
/// How long an idle machine waits before it lets the guest look for device interrupts.
constexpr auto kIdleStep = std::chrono::milliseconds(1);

/// No chunk is shorter, or turns would cost more than work.
constexpr std::uint64_t kLeastInsns = 100;

std::uint32_t apic_read(Core &core, std::uint32_t offset) {
  std::uint32_t value = 0;
  g_byte_array_set_size(core.buffer, 0);
  if (qemu_plugin_read_memory_hwaddr(apic::kBase + offset, core.buffer, sizeof value) == 0)
    std::memcpy(&value, core.buffer->data, sizeof value);
  return value;
}

void physical_write(Core &core, std::uint64_t physical, std::uint32_t value) {
  g_byte_array_set_size(core.buffer, 0);
  g_byte_array_append(core.buffer, reinterpret_cast<const std::uint8_t *>(&value), sizeof value);
  qemu_plugin_write_memory_hwaddr(physical, core.buffer);
}

/// A message-signalled interrupt, as a device would send it.
void interrupt(Core &from, apic::Identity to, std::uint8_t vector) {
  physical_write(from, apic::kBase | std::uint64_t{to.physical} << 12, vector);
}

}  // namespace

Gate::Gate(machine::Machine &m, unsigned cores, std::chrono::milliseconds call_patience)
    : machine_(m), call_patience_(call_patience), seats_(cores) {}

void Gate::start(Ps at, std::ostream *report, Ps interval) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_.start(at);
  for (unsigned c = 0; c < seats_.size(); c++) machine_.sleep(c, Progress{});
  report_ = report;
  interval_ = interval;
  next_report_ = report == nullptr ? kNever : at + interval;
}

/// Takes the timer over from QEMU, with what is left of it. QEMU is asked without the mutex: it
/// takes its own.
void Gate::adopt(Core &core) {
  const auto id = static_cast<std::uint8_t>(apic_read(core, apic::kId) >> 24);
  const auto logical = static_cast<std::uint8_t>(apic_read(core, apic::kLogicalDestination) >> 24);
  const std::uint32_t lvt = apic_read(core, apic::kLvtTimer);
  const std::uint32_t divide = apic_read(core, apic::kDivide);
  const std::uint32_t left = apic_read(core, apic::kCurrentCount);
  if (left != 0) physical_write(core, apic::kBase + apic::kInitialCount, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  Seat &s = seats_[core.index];
  s.adopted = true;
  s.apic = {id, logical};
  s.timer.write_lvt(lvt);
  s.timer.write_divide(divide);
  if (left != 0) s.timer.start(left, machine_.horizon());
}

/// A core that slept is back.
void Gate::arrive(Core &core) {
  Seat &s = seats_[core.index];
  if (!s.asleep) return;
  s.asleep = false;
  awake_++;
  if (s.called.has_value())
    s.called.reset();
  else
    machine_.wake(core.index, machine_.horizon());
  // The one that kept an idle machine going need not any more.
  for (Seat &other : seats_)
    if (other.waiting) other.go.notify_one();
}

void Gate::call(unsigned core, Ps at) {
  Seat &s = seats_[core];
  if (!s.asleep || s.called.has_value()) return;
  s.called = HostClock::now() + call_patience_;
  machine_.wake(core, at);
}

bool Gate::is_any_called() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const Seat &s) { return s.called.has_value(); });
}

void Gate::give_up_late() {
  for (unsigned c = 0; c < seats_.size(); c++) {
    Seat &s = seats_[c];
    if (!s.called.has_value() || HostClock::now() < *s.called) continue;
    s.called.reset();
    machine_.sleep(c, Progress{});
  }
}

void Gate::send(unsigned from, std::uint32_t command, Ps now) {
  for (unsigned c = 0; c < seats_.size(); c++)
    if (seats_[c].adopted &&
        apic::wakes(command, seats_[from].command_high, c == from, seats_[c].apic))
      call(c, now);
}

void Gate::wake_ready(unsigned except) {
  for (unsigned c = 0; c < seats_.size(); c++) {
    Seat &s = seats_[c];
    if (c == except || !s.waiting) continue;
    const bool ready = s.catching.has_value() ? is_caught_up(c, *s.catching) : machine_.may_run(c);
    if (ready) s.go.notify_one();
  }
}

template <typename Condition>
bool Gate::wait(std::unique_lock<std::mutex> *lock, unsigned core,
                std::chrono::nanoseconds patience, const Condition &condition) {
  Seat &s = seats_[core];
  s.waiting = true;
  const bool met = s.go.wait_for(*lock, patience, condition);
  s.waiting = false;
  if (!met) give_up_late();
  return met;
}

/// When this core must look at timers again: its own, and those of sleepers.
Ps Gate::next_due(unsigned core) const {
  Ps due = seats_[core].timer.due();
  for (const Seat &s : seats_)
    if (s.asleep) due = std::min(due, s.timer.due());
  return due;
}

void Gate::start_chunk(Core &core, const Progress &progress) {
  const Ps now = machine_.now(core.index, progress.all());
  const Ps due = next_due(core.index);
  const Ps room = std::min(machine_.description().quantum, due > now ? due - now : 0);
  const std::uint64_t insns = room * 1000 / machine_.description().fs_per_insn();
  core.hot->spent = kTurn - std::max(insns, kLeastInsns);
}

/// Delivers the timer interrupts that are due, without the mutex: QEMU takes its own.
void Gate::deliver(Core &core, Ps now) {
  for (unsigned c = 0; c < seats_.size(); c++) {
    std::uint8_t vector = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Seat &s = seats_[c];
      if ((c != core.index && !s.asleep) || s.timer.due() > now || !s.timer.fire()) continue;
      vector = s.timer.vector();
      call(c, now);
    }
    interrupt(core, seats_[c].apic, vector);
  }
}

void Gate::report_until(Ps now) {
  while (next_report_ <= now) {
    machine_.report(*report_);
    report_->flush();
    next_report_ += interval_;
  }
}

bool Gate::turn(Core &core, const Progress &progress) {
  if (!seats_[core.index].adopted) adopt(core);
  const std::uint32_t pauses = core.pauses;
  core.pauses = 0;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    arrive(core);
    if (pauses != 0)
      machine_.spend(core.index, progress,
                     pauses * kPauseInsns * machine_.description().fs_per_insn() / 1000);
    const machine::Turn t = machine_.sync(core.index, progress);
    wake_ready(core.index);
    report_until(machine_.horizon());
    if (t == machine::Turn::wait) {
      const bool ready =
          wait(&lock, core.index, kPatience, [&] { return machine_.may_run(core.index); });
      if (!ready) return false;
    }
    start_chunk(core, progress);
  }
  deliver(core, machine_.now(core.index, progress.all()));
  return true;
}

bool Gate::catch_up(Core &core, const Progress &progress) {
  std::unique_lock<std::mutex> lock(mutex_);
  arrive(core);
  machine_.sync(core.index, progress);
  wake_ready(core.index);
  const std::uint64_t insns = progress.all();
  const auto there = [&] { return is_caught_up(core.index, insns); };
  if (there()) return true;
  Seat &s = seats_[core.index];
  s.catching = insns;
  const bool ok = wait(&lock, core.index, kPatience, there);
  s.catching.reset();
  return ok;
}

/// All others sleep: time goes on as fast as the host's, up to the next timer.
void Gate::pass_time(Core &core, const Progress &progress, std::unique_lock<std::mutex> *lock) {
  const Ps now = machine_.now(core.index, progress.all());
  const Ps due = next_due(core.index);
  const Ps left = due > now ? due - now : 0;
  const auto begin = HostClock::now();
  const auto step = std::min<std::chrono::nanoseconds>(
      kIdleStep, std::chrono::nanoseconds(left == kNever ? Ps{1} << 40 : left / kPsPerNs));
  wait(lock, core.index, step, [&] { return awake_ > 1; });
  const Ps passed =
      static_cast<Ps>(std::chrono::nanoseconds(HostClock::now() - begin).count()) * kPsPerNs;
  // Asleep in between, so that no cycles are counted.
  machine_.sleep(core.index, progress);
  machine_.wake(core.index, now + std::min(passed, left));
}

Gate::Halt Gate::halt(Core &core, const Progress &progress) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    arrive(core);
    machine_.sync(core.index, progress);
    if (awake_ == 1 && is_any_called())
      wait(&lock, core.index, kPatience, [&] { return awake_ > 1; });
    if (awake_ > 1) {
      seats_[core.index].asleep = true;
      awake_--;
      machine_.sleep(core.index, progress);
      wake_ready(core.index);
      // The first block after the halt comes to turn().
      core.hot->spent = kTurn;
      return Halt::sleep;
    }
    if (is_any_called()) return Halt::again;
    pass_time(core, progress, &lock);
    report_until(machine_.horizon());
    start_chunk(core, progress);
  }
  deliver(core, machine_.now(core.index, progress.all()));
  return Halt::go_on;
}

void Gate::apic_write(Core &core, std::uint32_t offset, std::uint32_t value, Ps now) {
  if (!seats_[core.index].adopted) adopt(core);
  if (offset == apic::kInitialCount && value != 0) physical_write(core, apic::kBase + offset, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (offset == apic::kCommandHigh) seats_[core.index].command_high = value;
  if (offset == apic::kCommand) send(core.index, value, now);
  Timer &t = seats_[core.index].timer;
  if (offset == apic::kLvtTimer) t.write_lvt(value);
  if (offset == apic::kDivide) t.write_divide(value);
  if (offset != apic::kInitialCount) return;
  t.start(value, now);
  // The chunk that runs may be longer than that.
  core.hot->spent = kTurn;
}

void Gate::write_report(std::ostream &out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_.report(out);
  out.flush();
}

}  // namespace drfq::plugin
