// SPDX-License-Identifier: GPL-2.0-only
#include "dram.hh"

namespace drfq::machine {
Channel::Channel(const Description &d, Client *client)
    : memory_(d.memory), hash_(d.memory.timing, d.bank_hash), client_(client), waiting_(d.cores) {
  memory_.listen(this);
}

void Channel::request(unsigned core, Line line, Dir dir, Ps at) {
  later_.push({at, seq_++, line, core, dir});
}

Ps Channel::next_event() const {
  return std::min(memory_.next_event(), later_.empty() ? kNever : later_.top().at);
}

void Channel::advance(Ps to) {
  while (!later_.empty() && later_.top().at <= to) {
    const Request r = later_.top();
    later_.pop();
    if (r.at > memory_.now()) memory_.advance(r.at);
    Waiting &w = waiting_[r.core];
    std::deque<Line> &line = r.dir == Dir::read ? w.reads : w.writes;
    if (!line.empty() || !offer(r.core, r.line, r.dir, memory_.now())) line.push_back(r.line);
  }
  memory_.advance(to);
}

bool Channel::offer(unsigned core, Line line, Dir dir, Ps now) {
  Packet p;
  p.address = hash_(line * kLineBytes);
  p.bytes = kLineBytes;
  p.dir = dir;
  p.label = Label::of_core(core);
  p.port = core;
  p.cookie = line;
  const Pid pid = attribute(memory_.controller().registers(), p.label).pid;
  if (memory_.submit(p, now) != Admission::accepted) return false;
  client_->charged(pid, dir, kLineBytes);
  return true;
}

void Channel::completed(const Completion &c) {
  if (c.dir == Dir::read) client_->arrived(c.cookie, c.at);
}

/// One packet of each core in turn, beginning behind the one that went last: a
/// queue with little room must not serve the same core each time.
void Channel::room(Dir dir, Ps now) {
  const unsigned cores = static_cast<unsigned>(waiting_.size());
  unsigned &last = last_[index(dir)];
  for (unsigned refused = 0; refused < cores;) {
    const unsigned core = (last + 1 + refused) % cores;
    std::deque<Line> &line = dir == Dir::read ? waiting_[core].reads : waiting_[core].writes;
    if (line.empty() || !offer(core, line.front(), dir, now)) {
      refused++;
      continue;
    }
    line.pop_front();
    last = core;
    refused = 0;
    if (dir == Dir::write) client_->drained(core, now);
  }
}

Ps Channel::idle_latency(const Timing &t) {
  const unsigned bursts = (kLineBytes + t.burst_bytes - 1) / t.burst_bytes;
  return t.frontend + t.rcd + t.cl + bursts * t.burst + t.backend;
}

}  // namespace drfq::machine
