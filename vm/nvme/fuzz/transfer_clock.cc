// SPDX-License-Identifier: GPL-2.0-only
#include "transfer_clock.hh"

#include <algorithm>
#include <stdexcept>

namespace drfq::nvme {
namespace {

constexpr Ps kMemoryLatency = kPsPerUs / 10;

hardware::MachineDescription machine() {
  hardware::MachineDescription d;
  d.quantum = kPsPerUs;
  d.storage.latency = 3 * kPsPerUs;
  d.storage.fs_per_byte = 100'000;
  d.storage.outstanding = 4;
  return d;
}

}  // namespace

TransferClock::TransferClock() : engine_(machine()) {}

void TransferClock::start(std::uint64_t id, Dir dir,
                          const std::vector<hardware::Segment> &segments) {
  engine_.start({id, dir, segments, 0}, 0, now_);
}

void TransferClock::cancel() {
  engine_.cancel();
  due_.clear();
}

std::optional<std::uint64_t> TransferClock::next(Ps until) {
  for (;;) {
    for (const hardware::FinishedTransfer &f : engine_.take_finished()) {
      if (f.due < now_ || f.due < f.started)
        throw std::logic_error("a transfer ends before the present");
      due_.emplace(f.due, f.id);
    }
    const Ps due = due_.empty() ? kNever : due_.begin()->first;
    const Ps done_at = under_way_.empty() ? kNever : under_way_.front().first;
    const Ps at = std::min({due, done_at, engine_.next_event()});
    if (at == kNever || at > until) {
      if (until != kNever) now_ = std::max(now_, until);
      return {};
    }
    now_ = std::max(now_, at);
    if (due <= at) {
      const std::uint64_t id = due_.begin()->second;
      due_.erase(due_.begin());
      return id;
    }
    step(done_at);
  }
}

/// Memory is done with a line, or the next one leaves. done_at: the time of the former.
void TransferClock::step(Ps done_at) {
  if (done_at <= now_) {
    engine_.done(under_way_.front().second, now_);
    under_way_.pop_front();
    return;
  }
  lines_++;
  under_way_.emplace_back(now_ + kMemoryLatency, engine_.take().command);
}

}  // namespace drfq::nvme
