// SPDX-License-Identifier: GPL-2.0-only
#include "dma_engine.hh"

#include <algorithm>

namespace drfq::hardware {
namespace {
constexpr std::uint64_t kFsPerPs = 1000;
}

void DmaEngine::start(Transfer t, Pid pid, Ps now) {
  traffic_.transfers++;
  t.segments.erase(std::remove_if(t.segments.begin(), t.segments.end(),
                                  [](const Segment &s) { return s.bytes == 0; }),
                   t.segments.end());
  const auto at = active_.emplace(next_++, Command{}).first;
  Command &c = at->second;
  c.transfer = std::move(t);
  c.pid = pid;
  c.started = now;
  c.ready = now + before_;
  if (c.transfer.segments.empty()) return finish(at, c.ready);
  sending_.push_back(at->first);
}

void DmaEngine::cancel() {
  active_.clear();
  sending_.clear();
  finished_.clear();
}

Ps DmaEngine::next_event() const {
  if (sending_.empty() || under_way_ >= config_.outstanding) return kNever;
  return std::max(free_, active_.at(sending_.front()).ready);
}

DmaEngine::Piece DmaEngine::take() {
  const Ps now = next_event();
  Command &c = active_.at(sending_.front());
  const Segment &s = c.transfer.segments[c.segment];
  Piece p;
  p.address = s.address + c.offset;
  p.bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(s.bytes - c.offset, kLineBytes - p.address % kLineBytes));
  p.dir = c.transfer.dir;
  p.pid = c.pid;
  p.command = sending_.front();
  (p.dir == Dir::write ? traffic_.to_memory_bytes : traffic_.from_memory_bytes) += p.bytes;
  c.pieces++;
  under_way_++;
  // In femtoseconds, the time itself would have no room in 64 bits after five hours.
  free_ = now + (p.bytes * config_.fs_per_byte + kFsPerPs - 1) / kFsPerPs;
  c.offset += p.bytes;
  if (c.offset == s.bytes) {
    c.offset = 0;
    c.segment++;
  }
  if (c.segment == c.transfer.segments.size()) {
    c.sent = true;
    sending_.pop_front();
  }
  return p;
}

void DmaEngine::done(std::uint64_t command, Ps now) {
  // The link stood still until now, and does not make up for it.
  if (under_way_ == config_.outstanding) free_ = std::max(free_, now);
  under_way_--;
  const auto at = active_.find(command);
  if (at == active_.end()) return;
  if (--at->second.pieces == 0 && at->second.sent) finish(at, now);
}

void DmaEngine::finish(std::map<std::uint64_t, Command>::iterator at, Ps now) {
  const Command &c = at->second;
  finished_.push_back({c.transfer.id, c.transfer.target, c.pid, c.started, now + lookahead_});
  active_.erase(at);
}

}  // namespace drfq::hardware
