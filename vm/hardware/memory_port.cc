// SPDX-License-Identifier: GPL-2.0-only
#include "memory_port.hh"

namespace drfq::hardware {
MemoryPort::MemoryPort(const MachineDescription &d, Client *client)
    : memory_(d.memory),
      hash_(d.memory.timing, d.bank_hash),
      client_(client),
      device_(d.cores),
      waiting_(d.cores + 1) {
  memory_.listen(this);
}

void MemoryPort::request(unsigned core, Line line, Dir dir, Ps at, std::uint64_t space) {
  const Wanted w{line * kLineBytes, line, space, kLineBytes, Label::of_core(core)};
  later_.push({at, seq_++, w, core, dir});
}

void MemoryPort::request_of_device(std::uint64_t address, std::uint32_t bytes, Dir dir, Ps at,
                                   Pid pid, std::uint64_t cookie) {
  const Wanted w{address, cookie, kNoSpace, bytes, Label::of_substream(pid)};
  later_.push({at, seq_++, w, device_, dir});
}

Ps MemoryPort::next_event() const {
  return std::min(memory_.next_event(), later_.empty() ? kNever : later_.top().at);
}

void MemoryPort::advance(Ps to) {
  while (!later_.empty() && later_.top().at <= to) {
    const Request r = later_.top();
    later_.pop();
    if (r.at > memory_.now()) memory_.advance(r.at);
    std::deque<Wanted> &packets = waiting_[r.port].packets(r.dir);
    if (!packets.empty() || !submit(r.port, r.wanted, r.dir, memory_.now()))
      packets.push_back(r.wanted);
  }
  memory_.advance(to);
}

bool MemoryPort::submit(unsigned port, const Wanted &wanted, Dir dir, Ps now) {
  Packet p;
  p.address = hash_(wanted.address);
  p.bytes = wanted.bytes;
  p.dir = dir;
  p.label = wanted.label;
  p.port = port;
  p.cookie = wanted.cookie;
  const Pid pid = owner_of(memory_.controller().registers(), p.label);
  if (memory_.submit(p, now) != Admission::accepted) return false;
  client_->packet_accepted(pid, dir, wanted.bytes, wanted.space);
  if (port == device_ && dir == Dir::write) client_->device_done(wanted.cookie, now);
  return true;
}

void MemoryPort::completed(const Completion &c) {
  if (c.dir == Dir::write) return;
  if (c.port == device_)
    client_->device_done(c.cookie, c.at);
  else
    client_->line_arrived(c.cookie, c.at);
}

/// Submits one packet of each port in turn, starting after the port that was served last. A queue
/// with little room therefore does not serve the same port each time.
void MemoryPort::room(Dir dir, Ps now) {
  const unsigned ports = static_cast<unsigned>(waiting_.size());
  unsigned &last = last_[index(dir)];
  for (unsigned refused = 0; refused < ports;) {
    const unsigned port = (last + 1 + refused) % ports;
    std::deque<Wanted> &packets = waiting_[port].packets(dir);
    if (packets.empty() || !submit(port, packets.front(), dir, now)) {
      refused++;
      continue;
    }
    packets.pop_front();
    last = port;
    refused = 0;
    if (dir == Dir::write && port != device_) client_->write_accepted(port, now);
  }
}

Ps MemoryPort::idle_latency(const Timing &t) {
  const unsigned bursts = (kLineBytes + t.burst_bytes - 1) / t.burst_bytes;
  return t.frontend + t.rcd + t.cl + bursts * t.burst + t.backend;
}

}  // namespace drfq::hardware
