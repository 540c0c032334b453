// SPDX-License-Identifier: GPL-2.0-only
#include "memory_port.hh"

namespace drfq::hardware {
MemoryPort::MemoryPort(const MachineDescription &d, Client *client)
    : memory_(d.memory), hash_(d.memory.timing, d.bank_hash), client_(client), waiting_(d.cores) {
  memory_.listen(this);
}

void MemoryPort::request(unsigned core, Line line, Dir dir, Ps at, std::uint64_t space) {
  later_.push({at, seq_++, {line, space}, core, dir});
}

Ps MemoryPort::next_event() const {
  return std::min(memory_.next_event(), later_.empty() ? kNever : later_.top().at);
}

void MemoryPort::advance(Ps to) {
  while (!later_.empty() && later_.top().at <= to) {
    const Request r = later_.top();
    later_.pop();
    if (r.at > memory_.now()) memory_.advance(r.at);
    std::deque<Wanted> &lines = waiting_[r.core].lines(r.dir);
    if (!lines.empty() || !submit(r.core, r.wanted, r.dir, memory_.now()))
      lines.push_back(r.wanted);
  }
  memory_.advance(to);
}

bool MemoryPort::submit(unsigned core, const Wanted &wanted, Dir dir, Ps now) {
  Packet p;
  p.address = hash_(wanted.line * kLineBytes);
  p.bytes = kLineBytes;
  p.dir = dir;
  p.label = Label::of_core(core);
  p.port = core;
  p.cookie = wanted.line;
  const Pid pid = owner_of(memory_.controller().registers(), p.label);
  if (memory_.submit(p, now) != Admission::accepted) return false;
  client_->packet_accepted(pid, dir, kLineBytes, wanted.space);
  return true;
}

void MemoryPort::completed(const Completion &c) {
  if (c.dir == Dir::read) client_->line_arrived(c.cookie, c.at);
}

/// Submits one packet of each core in turn, starting after the core that was served last. A queue
/// with little room therefore does not serve the same core each time.
void MemoryPort::room(Dir dir, Ps now) {
  const unsigned cores = static_cast<unsigned>(waiting_.size());
  unsigned &last = last_[index(dir)];
  for (unsigned refused = 0; refused < cores;) {
    const unsigned core = (last + 1 + refused) % cores;
    std::deque<Wanted> &lines = waiting_[core].lines(dir);
    if (lines.empty() || !submit(core, lines.front(), dir, now)) {
      refused++;
      continue;
    }
    lines.pop_front();
    last = core;
    refused = 0;
    if (dir == Dir::write) client_->write_accepted(core, now);
  }
}

Ps MemoryPort::idle_latency(const Timing &t) {
  const unsigned bursts = (kLineBytes + t.burst_bytes - 1) / t.burst_bytes;
  return t.frontend + t.rcd + t.cl + bursts * t.burst + t.backend;
}

}  // namespace drfq::hardware
