// SPDX-License-Identifier: GPL-2.0-only
#include "memory_hierarchy.hh"

#include <algorithm>

namespace drfq::hardware {
namespace {

constexpr unsigned kNone = ~0u;

/// Cookie of a packet that belongs to no command of the device.
constexpr std::uint64_t kNoCommand = ~std::uint64_t{0};

/// Least time between two memory requests of one core, in cycles.
constexpr Ps kRequestCycles = 4;

/// Weight of the newest access in mean_stall: 1 / 2^kMeanShift.
constexpr unsigned kMeanShift = 5;

}  // namespace

MemoryHierarchy::MemoryHierarchy(const MachineDescription &d)
    : d_(d),
      insn_q32_(static_cast<std::uint64_t>(static_cast<long double>(d.fs_per_insn()) *
                                           4294967296.0L / 1000)),
      idle_latency_(MemoryPort::idle_latency(d.memory.timing)),
      request_spacing_(kRequestCycles * 1'000'000'000'000 / d.clock_hz),
      llc_(d.llc, d.rdt.rmids),
      rdt_(d.rdt, d.cores, d.llc.ways),
      port_(d, this),
      dma_(d),
      stored_(d.storage.queues != 0 ? kStoredLines : 0),
      by_pid_(kPids),
      by_rmid_(rdt_.rmids()),
      is_charged_(kPids) {
  for (unsigned i = 0; i < d.cores; i++) cores_.emplace_back(d.prefetch);
}

void MemoryHierarchy::record_clocks() {
  if (record_ == nullptr) return;
  for (unsigned i = 0; i < cores_.size(); i++)
    record_->clock(i, clock(i), cores_[i].traffic.read, cores_[i].traffic.write);
}

void MemoryHierarchy::start(Ps at) {
  if (record_ != nullptr) record_->start(at);
  for (unsigned i = 0; i < cores_.size(); i++) {
    cores_[i].clock_offset = at;
    plan_next_step(i);
  }
  port_.advance(at);
}

void MemoryHierarchy::hand_over(unsigned core, const std::vector<LogEntry> &log,
                                std::uint64_t end) {
  if (record_ != nullptr) record_->entries(core, log.data(), log.size(), end);
  CoreState &c = cores_[core];
  for (const LogEntry &e : log) append(e, &c);
  c.end = std::max(c.end, end);
  plan_next_step(core);
}

void MemoryHierarchy::hand_over(unsigned core, const LogEntry &e) {
  if (record_ != nullptr) record_->entries(core, &e, 1, 0);
  append(e, &cores_[core]);
  plan_next_step(core);
}

void MemoryHierarchy::append(const LogEntry &e, CoreState *c) {
  c->log.push_back(e);
  // Within a block the emulator's counts may be inexact. They must not decrease.
  c->end = c->log.back().insns = std::max(c->end, e.insns);
  if (e.kind == LogEntry::Kind::busy) c->unplayed_busy += e.arg;
}

Ps MemoryHierarchy::estimate(unsigned core) const {
  const CoreState &c = cores_[core];
  return earliest_end(core) + c.unplayed_busy + c.log.size() * c.mean_stall;
}

std::vector<Pid> MemoryHierarchy::take_charged() {
  std::vector<Pid> out;
  out.swap(charged_);
  for (Pid p : out) is_charged_[p] = false;
  return out;
}

void MemoryHierarchy::expect(Transfer t) {
  if (record_ != nullptr) record_->expect(t);
  expected_[t.id] = std::move(t);
}

std::vector<FinishedTransfer> MemoryHierarchy::take_finished() {
  std::vector<FinishedTransfer> out = dma_.take_finished();
  if (record_ != nullptr)
    for (const FinishedTransfer &t : out) record_->finished(t);
  return out;
}

void MemoryHierarchy::sleep(unsigned core) {
  if (record_ != nullptr) record_->sleep(core);
  cores_[core].asleep = true;
  last_asleep_ = core;
}

void MemoryHierarchy::wake(unsigned core) {
  if (record_ != nullptr) record_->wake(core);
  cores_[core].asleep = false;
}

MsrResult MemoryHierarchy::write_rdt(unsigned core, std::uint32_t msr, std::uint64_t value) {
  if (record_ != nullptr) record_->write_rdt(core, msr, value);
  return rdt_.write(core, msr, value);
}

void MemoryHierarchy::play() {
  if (record_ != nullptr) record_->play();
  play_until(kNone);
}

void MemoryHierarchy::drain(unsigned core) {
  if (record_ != nullptr) record_->drain(core);
  play_until(core);
}

/// The core whose next step is the earliest. A core with an empty log stops the playback at its
/// clock, because its next log may hold earlier steps. Sleeping cores do not, nor do any if force.
unsigned MemoryHierarchy::slowest(bool force, Ps *at) const {
  unsigned best = kNone;
  *at = kNever;
  for (unsigned i = 0; i < cores_.size(); i++) {
    const CoreState &c = cores_[i];
    if (c.next >= *at) continue;
    if (has_played_all(c) && (c.asleep || force)) continue;
    *at = c.next;
    best = i;
  }
  return best;
}

void MemoryHierarchy::play_until(unsigned forced) {
  for (;;) {
    if (forced != kNone && has_played_all(cores_[forced])) return;
    Ps at = kNever;
    const unsigned core = slowest(forced != kNone, &at);
    const Ps limit = memory_limit(core, at);
    // A memory event may unblock a core whose next step is then the earliest.
    unblocked_ = false;
    while (!unblocked_) {
      const Ps event = port_.next_event(), piece = dma_.next_event();
      if (piece <= event && piece <= limit && piece != kNever) {
        move_piece(piece);
        continue;
      }
      if (event > limit || event == kNever) break;
      port_.advance(event);
    }
    played_ = std::max(played_, port_.now());
    if (unblocked_) continue;
    if (core == kNone) return;
    played_ = std::max(played_, at);
    if (has_played_all(cores_[core])) return;
    step(core);
  }
}

/// Whether the core must wait for its oldest miss before its next log entry.
bool MemoryHierarchy::must_wait_for_miss(const CoreState &c) const {
  if (c.misses.empty()) return false;
  if (c.fenced) return true;
  const std::uint64_t next = c.log.empty() ? c.end : c.log.front().insns;
  return c.misses.size() >= d_.misses || c.misses.front().insns + d_.window <= next;
}

/// Whether everything that the core handed over is played back.
bool MemoryHierarchy::has_played_all(const CoreState &c) const {
  return c.log.empty() && c.played == c.end && c.blocked == Blocked::no && !must_wait_for_miss(c);
}

/// Sets the time of the core's next step. That is its oldest miss if it must wait for one, else its
/// next log entry, else the end of its log.
void MemoryHierarchy::plan_next_step(unsigned core) {
  CoreState &c = cores_[core];
  if (c.blocked != Blocked::no) {
    c.next = kNever;
    return;
  }
  std::uint64_t insns = c.log.empty() ? c.end : c.log.front().insns;
  if (must_wait_for_miss(c))
    insns = std::min(insns, std::max(c.played, c.misses.front().insns + d_.window));
  if (!c.misses.empty() && (c.fenced || c.misses.size() >= d_.misses)) insns = c.played;
  c.next = time(core, std::max(insns, c.played));
}

void MemoryHierarchy::wait_for_oldest_miss(unsigned core) {
  CoreState &c = cores_[core];
  const Ps now = c.next;
  const Miss &m = c.misses.front();
  if (!c.fenced && c.misses.size() < d_.misses) c.played = std::max(c.played, m.insns + d_.window);
  if (m.done == kNever) {
    block(core, Blocked::miss, m.ring, now);
    return;
  }
  if (m.done > now) add_stall(core, m.done - now, m.ring);
  c.misses.pop_front();
  plan_next_step(core);
}

void MemoryHierarchy::step(unsigned core) {
  CoreState &c = cores_[core];
  const Ps now = c.next;
  if (must_wait_for_miss(c)) {
    wait_for_oldest_miss(core);
    return;
  }
  c.fenced = false;
  if (c.log.empty()) {
    c.played = c.end;
    plan_next_step(core);
    return;
  }
  const LogEntry e = c.log.front();
  c.played = e.insns;
  const bool memory = e.kind == LogEntry::Kind::load || e.kind == LogEntry::Kind::store ||
                      e.kind == LogEntry::Kind::stream;
  if (memory && port_.writes_are_full(core)) {
    block(core, Blocked::writes, e.ring, now);
    return;
  }
  c.log.pop_front();
  const Ps before = c.clock_offset.load(std::memory_order_relaxed);
  play_entry(core, e);
  const Ps stall = c.clock_offset.load(std::memory_order_relaxed) - before;
  if (memory) c.mean_stall = c.mean_stall - (c.mean_stall >> kMeanShift) + (stall >> kMeanShift);
  plan_next_step(core);
}

void MemoryHierarchy::play_entry(unsigned core, const LogEntry &e) {
  CoreState &c = cores_[core];
  const Ps now = c.next;
  switch (e.kind) {
    case LogEntry::Kind::load:
    case LogEntry::Kind::store:
      reference(core, e);
      break;
    case LogEntry::Kind::write_back:
      write_back(core, e.arg, e.ring, now);
      break;
    case LogEntry::Kind::flush:
      flush(core, e);
      break;
    case LogEntry::Kind::stream:
      stream(core, e);
      break;
    case LogEntry::Kind::set_class:
      c.rdt_class = {static_cast<std::uint16_t>(e.arg), static_cast<std::uint16_t>(e.extra)};
      break;
    case LogEntry::Kind::busy:
      c.clock_offset += e.arg;
      c.unplayed_busy -= e.arg;
      c.counts.ring[e.ring][Quantity::busy_ps] += e.arg;
      break;
    case LogEntry::Kind::wake:
      if (e.arg > now) c.clock_offset += e.arg - now;
      break;
    case LogEntry::Kind::write_register:
      port_.registers().write(e.arg, e.extra);
      break;
    case LogEntry::Kind::set_space:
      c.space = e.arg;
      break;
    case LogEntry::Kind::fence:
      c.fenced = true;
      break;
    case LogEntry::Kind::start_transfer:
      start_transfer(core, e.arg, now);
      break;
  }
}

void MemoryHierarchy::flush(unsigned core, const LogEntry &e) {
  const CoreState &c = cores_[core];
  const SharedCache::LineState *m = llc_.find(e.arg);
  const std::uint16_t rmid = m != nullptr ? m->rmid : c.rdt_class.rmid;
  if (llc_.flush(e.arg) || e.extra != 0) to_memory(core, e.arg, rmid, c.next);
}

/// A streaming store writes a whole line to memory and removes it from the shared cache.
void MemoryHierarchy::stream(unsigned core, const LogEntry &e) {
  CoreState &c = cores_[core];
  const Ps now = throttle(core, c.next, idle_latency_);
  add_stall(core, now - c.next, e.ring);
  c.counts.ring[e.ring][Quantity::streaming_store]++;
  const SharedCache::LineState *m = llc_.find(e.arg);
  if (m != nullptr && !m->in_flight) llc_.flush(e.arg);
  to_memory(core, e.arg, c.rdt_class.rmid, now);
}

void MemoryHierarchy::reference(unsigned core, const LogEntry &e) {
  CoreState &c = cores_[core];
  const Line line = e.arg;
  const bool own = e.kind == LogEntry::Kind::store;
  CoreCounts &n = c.counts.ring[e.ring];
  SharedCache::LineState *m = llc_.find(line);
  const bool from_memory = m == nullptr || m->in_flight || m->prefetched;
  const Ps now = throttle(core, c.next, from_memory ? idle_latency_ : d_.llc.hit);
  if (d_.window == 0) add_stall(core, now - c.next, e.ring);
  if (m == nullptr) {
    n[own ? Quantity::rfo_miss : Quantity::read_miss]++;
    fetch(core, line, e.ring, false, now);
    track_miss({e.insns, line, kNever, e.ring}, now, &c);
    prefetch(core, line, e.ring, own, now);
    return;
  }
  n[own ? Quantity::rfo_hit : Quantity::read_hit]++;
  llc_.touch(m);
  if (!m->in_flight && d_.window == 0)
    add_stall(core, d_.llc.hit, e.ring);
  else
    track_miss({e.insns, line, m->in_flight ? kNever : now + d_.llc.hit, e.ring}, now, &c);
  if (!m->prefetched) return;
  m->prefetched = false;
  prefetch(core, line, e.ring, own, now);
}

/// Adds a miss. Misses that have arrived by now are dropped: only those in flight count against the
/// limit.
void MemoryHierarchy::track_miss(const Miss &m, Ps now, CoreState *c) {
  c->misses.erase(std::remove_if(c->misses.begin(), c->misses.end(),
                                 [now](const Miss &o) { return o.done <= now; }),
                  c->misses.end());
  c->misses.push_back(m);
}

/// Requests a line from memory and allocates it in the shared cache.
void MemoryHierarchy::fetch(unsigned core, Line line, std::uint8_t ring, bool prefetch, Ps now) {
  const Ps looked_up = now + d_.llc.hit;
  SharedCache::LineState *m = fill(core, line, looked_up);
  m->in_flight = true;
  m->prefetched = prefetch;
  in_flight_.push_back({line, core, prefetch});
  CoreState &c = cores_[core];
  c.traffic.read += kLineBytes;
  by_rmid_[m->rmid].read += kLineBytes;
  rdt_.count_line(m->rmid);
  // The shared cache sends requests of one core one after another.
  c.last_request = std::max(looked_up, c.last_request + request_spacing_);
  port_.request(core, line, Dir::read, c.last_request, ring != 0 ? c.space : kNoSpace);
}

/// own: a store asked for the line that trains the prefetcher.
void MemoryHierarchy::prefetch(unsigned core, Line line, std::uint8_t ring, bool own, Ps now) {
  CoreState &c = cores_[core];
  const Prefetcher::Wanted w = c.prefetcher.train(line);
  for (unsigned i = 0; i < w.count; i++) {
    if (c.prefetches >= d_.prefetch.outstanding) return;
    if (llc_.find(w.lines[i]) != nullptr) continue;
    c.prefetches++;
    c.counts.ring[ring][Quantity::prefetch_miss]++;
    if (own) c.counts.ring[ring][Quantity::prefetch_own]++;
    fetch(core, w.lines[i], ring, true, now);
  }
}

SharedCache::LineState *MemoryHierarchy::fill(unsigned core, Line line, Ps at) {
  const RdtClass rdt_class = cores_[core].rdt_class;
  SharedCache::Victim v;
  SharedCache::LineState *m = llc_.fill(line, rdt_class.rmid, rdt_.ways(rdt_class.clos), &v);
  if (v.valid && v.state.dirty) to_memory(core, v.line, v.state.rmid, at);
  return m;
}

/// The shared cache takes a dirty line from a private cache without a fetch, because it is whole.
void MemoryHierarchy::write_back(unsigned core, Line line, std::uint8_t ring, Ps now) {
  cores_[core].counts.ring[ring][Quantity::write_back]++;
  SharedCache::LineState *m = llc_.find(line);
  if (m == nullptr) m = fill(core, line, now);
  m->dirty = true;
}

void MemoryHierarchy::to_memory(unsigned core, Line line, std::uint16_t rmid, Ps at) {
  cores_[core].traffic.write += kLineBytes;
  by_rmid_[rmid].write += kLineBytes;
  rdt_.count_line(rmid);
  // A write-back is a former program's as often as the present one's.
  port_.request(core, line, Dir::write, at, kNoSpace);
}

/// When bandwidth allocation lets a reference through that is ready at this time. Throttling sits
/// between the private and the shared cache, so it delays shared-cache hits too (Linux,
/// Documentation/filesystems/resctrl.rst: "L2 external bandwidth"). It extends the time since the
/// core's previous reference by the class's factor. At most duration, the time that such a
/// reference takes, is extended: the rest of the interval was the core's own computation.
Ps MemoryHierarchy::throttle(unsigned core, Ps at, Ps duration) {
  CoreState &c = cores_[core];
  const Ps since = at > c.throttled_until ? std::min(at - c.throttled_until, duration) : 0;
  const double factor = rdt_.throttle_factor(c.rdt_class.clos);
  c.throttled_until =
      std::max(at, c.throttled_until) + static_cast<Ps>(factor * static_cast<double>(since));
  return c.throttled_until;
}

void MemoryHierarchy::block(unsigned core, Blocked why, std::uint8_t ring, Ps now) {
  CoreState &c = cores_[core];
  c.blocked = why;
  c.blocked_at = now;
  c.blocked_ring = ring;
  c.next = kNever;
}

void MemoryHierarchy::unblock(unsigned core, Ps now) {
  CoreState &c = cores_[core];
  const Ps stall = now > c.blocked_at ? now - c.blocked_at : 0;
  c.blocked = Blocked::no;
  unblocked_ = true;
  add_stall(core, stall, c.blocked_ring);
  c.mean_stall += stall >> kMeanShift;
  plan_next_step(core);
}

void MemoryHierarchy::add_stall(unsigned core, Ps ps, std::uint8_t ring) {
  CoreState &c = cores_[core];
  c.clock_offset += ps;
  c.counts.ring[ring][Quantity::busy_ps] += ps;
  c.counts.ring[ring][Quantity::stall_ps] += ps;
}

void MemoryHierarchy::line_arrived(Line line, Ps now) {
  for (std::size_t i = 0; i < in_flight_.size(); i++) {
    if (in_flight_[i].line != line) continue;
    if (in_flight_[i].prefetch) cores_[in_flight_[i].core].prefetches--;
    in_flight_[i] = in_flight_.back();
    in_flight_.pop_back();
    break;
  }
  if (SharedCache::LineState *m = llc_.find(line)) m->in_flight = false;
  for (unsigned i = 0; i < cores_.size(); i++) {
    CoreState &c = cores_[i];
    for (Miss &m : c.misses)
      if (m.line == line && m.done == kNever) m.done = now;
    if (c.blocked == Blocked::miss && c.misses.front().done != kNever) {
      c.misses.pop_front();
      unblock(i, now);
    }
  }
}

void MemoryHierarchy::write_accepted(unsigned core, Ps now) {
  if (cores_[core].blocked == Blocked::writes && !port_.writes_are_full(core)) unblock(core, now);
}

void MemoryHierarchy::packet_accepted(Pid pid, Dir dir, unsigned bytes, std::uint64_t space) {
  (dir == Dir::read ? by_pid_[pid].read : by_pid_[pid].write) += bytes;
  if (space != kNoSpace) by_space_[{space, pid}] += bytes;
  if (is_charged_[pid]) return;
  is_charged_[pid] = true;
  charged_.push_back(pid);
}

/// Until when memory and the device may go on. core: whose next step is the earliest, at this time.
/// Neither must pass a core that may ask for memory: memory's time never goes back. While all cores
/// sleep, the clock of the one that went to sleep last counts: the emulator moves that one on, and
/// the others may be ahead of it. A core that waits for memory sets no limit.
Ps MemoryHierarchy::memory_limit(unsigned core, Ps at) const {
  if (core != kNone) return at;
  for (const CoreState &c : cores_)
    if (c.blocked != Blocked::no) return kNever;
  return clock(last_asleep_);
}

/// The task that rings the doorbell pays: the one whose label its core has at that moment.
void MemoryHierarchy::start_transfer(unsigned core, std::uint64_t id, Ps now) {
  const auto t = expected_.find(id);
  if (t == expected_.end()) return;  // cancelled
  dma_.start(std::move(t->second), port_.registers().pid_core(core), now);
  expected_.erase(t);
}

void MemoryHierarchy::cancel_transfers() {
  if (record_ != nullptr) record_->cancel_transfers();
  expected_.clear();
  dma_.cancel();
}

void MemoryHierarchy::device_done(std::uint64_t cookie, Ps now) {
  if (cookie != kNoCommand) dma_.done(cookie, now);
}

/// The device moves its next line, at the time that it asked for.
void MemoryHierarchy::move_piece(Ps now) {
  const DmaEngine::Piece p = dma_.take();
  if (p.dir == Dir::write) stored_[lines_stored_++ % kStoredLines] = p.address / kLineBytes;
  const Takes takes = cache_takes(p, now);
  if (takes == Takes::no) {
    port_.request_of_device(p.address, p.bytes, p.dir, now, p.pid, p.command);
    return;
  }
  dma_.count_cached(p.bytes);
  if (takes == Takes::at_once) dma_.done(p.command, now);
}

/// Looks a line of the device up in the shared cache. What the device stores there stays there only
/// with DDIO; without it the cached line is dropped. What it loads comes from the cache if present.
/// A line that pushes out a dirty one has its place when memory has taken that one, so a device
/// cannot fill the cache faster than memory empties it.
MemoryHierarchy::Takes MemoryHierarchy::cache_takes(const DmaEngine::Piece &p, Ps now) {
  const Line line = p.address / kLineBytes;
  SharedCache::LineState *m = llc_.find(line);
  if (m != nullptr && m->in_flight) return Takes::no;
  if (p.dir == Dir::read) return m != nullptr ? Takes::at_once : Takes::no;
  const unsigned ways = d_.storage.ddio_ways;
  Takes takes = Takes::at_once;
  if (ways == 0) {
    if (m == nullptr) return Takes::no;
    const SharedCache::LineState state = *m;
    llc_.flush(line);
    // A whole line replaces the cached one. Beside a part, the rest of a dirty line goes to memory.
    if (state.dirty && p.bytes != kLineBytes) write_back_for_device(line, state, kNoCommand, now);
    return Takes::no;
  }
  if (m == nullptr) {
    // A part of a line needs the rest from memory, so it bypasses the cache.
    if (p.bytes != kLineBytes) return Takes::no;
    SharedCache::Victim v;
    const auto others = static_cast<std::uint32_t>(std::uint64_t{llc_.all_ways()} >> ways);
    const std::uint32_t allowed = llc_.all_ways() & ~others;
    m = llc_.fill(line, 0, allowed, &v);
    if (v.valid && v.state.dirty) {
      write_back_for_device(v.line, v.state, p.command, now);
      takes = Takes::after_write_back;
    }
  }
  m->pid = p.pid;
  m->dirty = true;
  return takes;
}

/// Writes a dirty line to memory that the device pushes out. The line's own ids pay, not the
/// command's: the line may be another task's. cookie: the command that waits for it, or kNoCommand.
void MemoryHierarchy::write_back_for_device(Line line, const SharedCache::LineState &state,
                                            std::uint64_t cookie, Ps now) {
  by_rmid_[state.rmid].write += kLineBytes;
  rdt_.count_line(state.rmid);
  port_.request_of_device(line * kLineBytes, kLineBytes, Dir::write, now, state.pid, cookie);
}

}  // namespace drfq::hardware
