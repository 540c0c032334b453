// SPDX-License-Identifier: GPL-2.0-only
#include "hierarchy.hh"

#include <algorithm>

namespace drfq::machine {
namespace {

constexpr unsigned kNone = ~0u;

/// Cycles between two requests of one core to memory.
constexpr Ps kRequestCycles = 4;

/// Weight of the newest event in the mean cost: 1 / 2^kCostShift.
constexpr unsigned kCostShift = 5;

}  // namespace

Hierarchy::Hierarchy(const Description &d)
    : d_(d),
      insn_q32_(static_cast<std::uint64_t>(static_cast<long double>(d.fs_per_insn()) *
                                           4294967296.0L / 1000)),
      idle_latency_(Channel::idle_latency(d.memory.timing)),
      spacing_(kRequestCycles * 1'000'000'000'000 / d.clock_hz),
      llc_(d.llc, d.rdt.rmids),
      rdt_(d.rdt, d.cores, d.llc.ways),
      channel_(d, this),
      by_pid_(kPids),
      by_rmid_(rdt_.ids()),
      is_charged_(kPids) {
  for (unsigned i = 0; i < d.cores; i++) cores_.emplace_back(d.prefetch);
}

void Hierarchy::start(Ps at) {
  for (unsigned i = 0; i < cores_.size(); i++) {
    cores_[i].offset = at;
    plan(i);
  }
  channel_.advance(at);
}

void Hierarchy::hand_over(unsigned core, const std::vector<Event> &log, std::uint64_t end) {
  Core &c = cores_[core];
  for (const Event &e : log) {
    c.todo.push_back(e);
    // The host's counts may be rough within a block of code, but never go back.
    c.end = c.todo.back().insns = std::max(c.end, e.insns);
  }
  c.end = std::max(c.end, end);
  plan(core);
}

void Hierarchy::hand_over(unsigned core, const Event &e) {
  Core &c = cores_[core];
  c.todo.push_back(e);
  c.end = c.todo.back().insns = std::max(c.end, e.insns);
  plan(core);
}

Ps Hierarchy::estimate(unsigned core) const {
  const Core &c = cores_[core];
  return time(core, c.end) + c.todo.size() * c.cost;
}

std::vector<Pid> Hierarchy::take_charged() {
  std::vector<Pid> out;
  out.swap(charged_);
  for (Pid p : out) is_charged_[p] = false;
  return out;
}

void Hierarchy::play() { play_until(kNone); }
void Hierarchy::settle(unsigned core) { play_until(core); }

/// The core whose next step is first. Those that have nothing to do hold the
/// others up, unless they sleep or somebody is forced.
unsigned Hierarchy::slowest(bool force, Ps *at) const {
  unsigned best = kNone;
  *at = kNever;
  for (unsigned i = 0; i < cores_.size(); i++) {
    const Core &c = cores_[i];
    if (c.next >= *at) continue;
    if (is_dry(c) && (c.asleep || force)) continue;
    *at = c.next;
    best = i;
  }
  return best;
}

void Hierarchy::play_until(unsigned forced) {
  for (;;) {
    if (forced != kNone && is_dry(cores_[forced])) return;
    Ps at = kNever;
    const unsigned core = slowest(forced != kNone, &at);
    // An event may set a core going that is then the first.
    woken_ = false;
    for (Ps event; !woken_ && (event = channel_.next_event()) <= at && event != kNever;)
      channel_.advance(event);
    played_ = std::max(played_, channel_.now());
    if (woken_) continue;
    if (core == kNone) return;
    played_ = std::max(played_, at);
    if (is_dry(cores_[core])) return;
    step(core);
  }
}

/// Whether the core must wait for its oldest miss before it does anything else.
bool Hierarchy::waits(const Core &c) const {
  if (c.misses.empty()) return false;
  if (c.fenced) return true;
  const std::uint64_t next = c.todo.empty() ? c.end : c.todo.front().insns;
  return c.misses.size() >= d_.misses || c.misses.front().insns + d_.window <= next;
}

/// Whether it did everything that it handed over.
bool Hierarchy::is_dry(const Core &c) const {
  return c.todo.empty() && c.point == c.end && c.blocked == Blocked::no && !waits(c);
}

/// Sets the time of the core's next step: its oldest miss, if it must wait for
/// that, else its next event, else the end of what it handed over.
void Hierarchy::plan(unsigned core) {
  Core &c = cores_[core];
  if (c.blocked != Blocked::no) {
    c.next = kNever;
    return;
  }
  std::uint64_t insns = c.todo.empty() ? c.end : c.todo.front().insns;
  if (waits(c)) insns = std::min(insns, std::max(c.point, c.misses.front().insns + d_.window));
  if (!c.misses.empty() && (c.fenced || c.misses.size() >= d_.misses)) insns = c.point;
  c.next = time(core, std::max(insns, c.point));
}

void Hierarchy::step(unsigned core) {
  Core &c = cores_[core];
  const Ps now = c.next;
  if (waits(c)) {
    const Miss &m = c.misses.front();
    if (!c.fenced && c.misses.size() < d_.misses) c.point = std::max(c.point, m.insns + d_.window);
    if (m.done == kNever) {
      block(core, Blocked::miss, m.ring, now);
      return;
    }
    if (m.done > now) lose(core, m.done - now, m.ring);
    c.misses.pop_front();
    plan(core);
    return;
  }
  c.fenced = false;
  if (c.todo.empty()) {
    c.point = c.end;
    plan(core);
    return;
  }
  const Event e = c.todo.front();
  c.point = e.insns;
  const bool memory = e.kind == Event::Kind::load || e.kind == Event::Kind::store;
  if (memory && channel_.writes_are_full(core)) {
    block(core, Blocked::writes, e.ring, now);
    return;
  }
  c.todo.pop_front();
  const Ps before = c.offset.load(std::memory_order_relaxed);
  perform(core, e);
  const Ps cost = c.offset.load(std::memory_order_relaxed) - before;
  if (memory) c.cost = c.cost - (c.cost >> kCostShift) + (cost >> kCostShift);
  plan(core);
}

void Hierarchy::perform(unsigned core, const Event &e) {
  Core &c = cores_[core];
  const Ps now = c.next;
  switch (e.kind) {
    case Event::Kind::load:
    case Event::Kind::store:
      reference(core, e);
      break;
    case Event::Kind::write_back:
      write_back(core, e.arg, e.ring, now);
      break;
    case Event::Kind::flush: {
      const SharedCache::Meta *m = llc_.find(e.arg);
      if (m != nullptr && m->coming) break;  // it comes clean
      const std::uint16_t rmid = m != nullptr ? m->rmid : c.cls.rmid;
      if (llc_.flush(e.arg) || e.extra != 0) to_memory(core, e.arg, rmid, e.ring, now);
      break;
    }
    case Event::Kind::assign:
      c.cls = {static_cast<std::uint16_t>(e.arg), static_cast<std::uint16_t>(e.extra)};
      break;
    case Event::Kind::spend:
      c.offset += e.arg;
      c.counts.ring[e.ring][Source::busy_ps] += e.arg;
      break;
    case Event::Kind::wake:
      if (e.arg > now) c.offset += e.arg - now;
      break;
    case Event::Kind::set:
      channel_.registers().write(e.arg, e.extra);
      break;
    case Event::Kind::fence:
      c.fenced = true;
      break;
  }
}

void Hierarchy::reference(unsigned core, const Event &e) {
  Core &c = cores_[core];
  const Line line = e.arg;
  const bool own = e.kind == Event::Kind::store;
  Counts &n = c.counts.ring[e.ring];
  SharedCache::Meta *m = llc_.find(line);
  const bool from_memory = m == nullptr || m->coming || m->prefetched;
  const Ps now = throttle(core, c.next, from_memory ? idle_latency_ : d_.llc.hit);
  if (d_.window == 0) lose(core, now - c.next, e.ring);
  if (m == nullptr) {
    n[own ? Source::own_miss : Source::read_miss]++;
    fetch(core, line, e.ring, false, now);
    remember({e.insns, line, kNever, e.ring}, now, &c);
    prefetch(core, line, e.ring, now);
    return;
  }
  n[own ? Source::own_hit : Source::read_hit]++;
  llc_.touch(m);
  if (!m->coming && d_.window == 0)
    lose(core, d_.llc.hit, e.ring);
  else
    remember({e.insns, line, m->coming ? kNever : now + d_.llc.hit, e.ring}, now, &c);
  if (!m->prefetched) return;
  m->prefetched = false;
  prefetch(core, line, e.ring, now);
}

/// Only what is still on its way counts against the limits.
void Hierarchy::remember(const Miss &m, Ps now, Core *c) {
  c->misses.erase(std::remove_if(c->misses.begin(), c->misses.end(),
                                 [now](const Miss &o) { return o.done <= now; }),
                  c->misses.end());
  c->misses.push_back(m);
}

/// Asks memory for a line that is not here, and makes room for it.
void Hierarchy::fetch(unsigned core, Line line, std::uint8_t ring, bool prefetch, Ps now) {
  const Ps known = now + d_.llc.hit;
  SharedCache::Meta *m = fill(core, line, ring, known);
  m->coming = true;
  m->prefetched = prefetch;
  coming_.push_back({line, core, prefetch});
  Core &c = cores_[core];
  c.moved.read += kLineBytes;
  by_rmid_[m->rmid].read += kLineBytes;
  rdt_.moved(m->rmid);
  // The shared cache asks memory for one line of a core at a time.
  c.port = std::max(known, c.port + spacing_);
  channel_.request(core, line, Dir::read, c.port);
}

void Hierarchy::prefetch(unsigned core, Line line, std::uint8_t ring, Ps now) {
  Core &c = cores_[core];
  const Prefetcher::Wanted w = c.prefetcher.train(line);
  for (unsigned i = 0; i < w.count; i++) {
    if (c.prefetches >= d_.prefetch.outstanding) return;
    if (llc_.find(w.lines[i]) != nullptr) continue;
    c.prefetches++;
    c.counts.ring[ring][Source::prefetch_miss]++;
    fetch(core, w.lines[i], ring, true, now);
  }
}

SharedCache::Meta *Hierarchy::fill(unsigned core, Line line, std::uint8_t ring, Ps at) {
  const Class cls = cores_[core].cls;
  SharedCache::Victim v;
  SharedCache::Meta *m = llc_.fill(line, cls.rmid, rdt_.ways(cls.clos), &v);
  if (v.valid && v.meta.dirty) to_memory(core, v.line, v.meta.rmid, ring, at);
  return m;
}

/// A dirty line from a private cache: the shared one takes it whole.
void Hierarchy::write_back(unsigned core, Line line, std::uint8_t ring, Ps now) {
  cores_[core].counts.ring[ring][Source::write_back]++;
  SharedCache::Meta *m = llc_.find(line);
  if (m == nullptr) m = fill(core, line, ring, now);
  m->dirty = true;
}

void Hierarchy::to_memory(unsigned core, Line line, std::uint16_t rmid, std::uint8_t ring, Ps at) {
  cores_[core].counts.ring[ring][Source::memory_write]++;
  cores_[core].moved.write += kLineBytes;
  by_rmid_[rmid].write += kLineBytes;
  rdt_.moved(rmid);
  channel_.request(core, line, Dir::write, at);
}

/// When a reference that is ready at this time passes the gate of bandwidth allocation,
/// which stands between the private cache and the shared one, so that it holds up hits of the
/// latter, too (Linux, Documentation/filesystems/resctrl.rst: "L2 external bandwidth"). It
/// stretches the time since the core's last: the gate stays closed for as long again times the
/// wait. Beyond what such a reference takes, the time is the core's own.
Ps Hierarchy::throttle(unsigned core, Ps at, Ps takes) {
  Core &c = cores_[core];
  const Ps open = at > c.gate ? std::min(at - c.gate, takes) : 0;
  const double wait = rdt_.wait(c.cls.clos);
  c.gate = std::max(at, c.gate) + static_cast<Ps>(wait * static_cast<double>(open));
  return c.gate;
}

void Hierarchy::block(unsigned core, Blocked why, std::uint8_t ring, Ps now) {
  Core &c = cores_[core];
  c.blocked = why;
  c.blocked_at = now;
  c.blocked_ring = ring;
  c.next = kNever;
}

void Hierarchy::go_on(unsigned core, Ps now) {
  Core &c = cores_[core];
  const Ps lost = now > c.blocked_at ? now - c.blocked_at : 0;
  c.blocked = Blocked::no;
  woken_ = true;
  lose(core, lost, c.blocked_ring);
  c.cost += lost >> kCostShift;
  plan(core);
}

void Hierarchy::lose(unsigned core, Ps ps, std::uint8_t ring) {
  Core &c = cores_[core];
  c.offset += ps;
  c.counts.ring[ring][Source::busy_ps] += ps;
  c.counts.ring[ring][Source::stall_ps] += ps;
}

void Hierarchy::arrived(Line line, Ps now) {
  for (std::size_t i = 0; i < coming_.size(); i++) {
    if (coming_[i].line != line) continue;
    if (coming_[i].prefetch) cores_[coming_[i].core].prefetches--;
    coming_[i] = coming_.back();
    coming_.pop_back();
    break;
  }
  if (SharedCache::Meta *m = llc_.find(line)) m->coming = false;
  for (unsigned i = 0; i < cores_.size(); i++) {
    Core &c = cores_[i];
    for (Miss &m : c.misses)
      if (m.line == line && m.done == kNever) m.done = now;
    if (c.blocked == Blocked::miss && c.misses.front().done != kNever) {
      c.misses.pop_front();
      go_on(i, now);
    }
  }
}

void Hierarchy::drained(unsigned core, Ps now) {
  if (cores_[core].blocked == Blocked::writes && !channel_.writes_are_full(core)) go_on(core, now);
}

void Hierarchy::charged(Pid pid, Dir dir, unsigned bytes) {
  (dir == Dir::read ? by_pid_[pid].read : by_pid_[pid].write) += bytes;
  if (is_charged_[pid]) return;
  is_charged_[pid] = true;
  charged_.push_back(pid);
}

}  // namespace drfq::machine
