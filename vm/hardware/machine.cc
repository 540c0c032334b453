// SPDX-License-Identifier: GPL-2.0-only
#include "machine.hh"

#include <algorithm>
#include <mutex>
#include <ostream>

#include "cpuid.hh"
#include "hierarchy.hh"
#include "pmu.hh"
#include "truth.hh"

namespace drfq::machine {
namespace {

/// Events of one core that may wait for slower cores before they are played all
/// the same: only a host that never waits gets there.
constexpr std::size_t kBacklogMax = 65536;

/// Bounds of the events that a core logs between two calls of sync().
constexpr std::size_t kLogLeast = 16, kLogMost = 2048;

std::uint8_t ring_of(Ring r) { return r == Ring::user; }

/// Whether an MSR can be ours; others must stay cheap.
bool is_pmu(std::uint32_t m) {
  const auto in = [m](std::uint32_t first, std::uint32_t count) { return m - first < count; };
  return in(msr::kPmc, 8) || in(msr::kPerfevtsel, 8) || in(msr::kOffcoreRsp0, 2) ||
         in(msr::kFixedCtr, 3) || m == msr::kPerfCapabilities || in(msr::kFixedCtrCtrl, 4) ||
         in(msr::kFullPmc, 8);
}

bool is_rdt(std::uint32_t m) { return m >= msr::kQmEvtsel && m < msr::kMbaDelay + 128; }

}  // namespace

struct Machine::State {
  explicit State(const Description &desc)
      : d(desc), hierarchy(desc), truth(desc), progress(desc.cores), local(desc.cores) {
    for (unsigned i = 0; i < desc.cores; i++) pmus.emplace_back(desc);
  }

  /// The core's thread only, but for now(), which reads the clock.
  struct alignas(64) Local {
    std::vector<Event> log;
    std::size_t enough = kLogLeast;  ///< events after which to sync
  };

  void hand_over(unsigned core, const Progress &p) {
    Local &l = local[core];
    Progress &known = progress[core];
    known.user = std::max(known.user, p.user);
    known.kernel = std::max(known.kernel, p.kernel);
    hierarchy.hand_over(core, l.log, known.all());
    l.log.clear();
    const Ps cost = std::max<Ps>(1, hierarchy.cost(core));
    l.enough = std::clamp<std::size_t>(d.quantum / cost, kLogLeast, kLogMost);
  }

  void play() {
    hierarchy.play();
    show_traffic();
  }

  /// CPUID and WRMSR wait for all that was before them (Intel SDM, volume 3, "Serializing
  /// Instructions"), so that a stall counts where its miss does. Of WRMSR only writes to
  /// the counters are taken so; elsewhere nothing shows it.
  void serialize(unsigned core, const Progress &p) {
    hand_over(core, p);
    hierarchy.hand_over(core, {p.all(), 0, 0, Event::Kind::fence, 0});
  }

  void settle(unsigned core, const Progress &p) {
    hand_over(core, p);
    hierarchy.play();
    hierarchy.settle(core);
    show_traffic();
  }

  void show_traffic() {
    const std::vector<Pid> pids = hierarchy.take_charged();
    if (!pids.empty()) registers.charged(pids, hierarchy.channel().registers());
  }

  bool may_run(unsigned core) const {
    if (hierarchy.is_played(core)) return true;
    return hierarchy.estimate(core) <= horizon() + d.quantum;
  }

  Ps horizon() const {
    Ps least = kNever, most = 0;
    for (unsigned i = 0; i < d.cores; i++) {
      const Ps at = hierarchy.handed_over(i);
      most = std::max(most, at);
      if (!hierarchy.is_asleep(i)) least = std::min(least, at);
    }
    return least == kNever ? most : least;
  }

  Sources counts(unsigned core) const {
    Sources s = hierarchy.counts(core);
    const std::uint64_t done[2] = {progress[core].kernel, progress[core].user};
    for (unsigned ring = 0; ring < 2; ring++) {
      s.ring[ring][Source::insns] = done[ring];
      s.ring[ring][Source::busy_ps] += hierarchy.insn_time(done[ring]);
    }
    return s;
  }

  const Description d;
  mutable std::mutex mutex;  // over all but local
  Hierarchy hierarchy;
  Truth truth;
  std::vector<Pmu> pmus;
  std::vector<Progress> progress;
  Registers registers;
  std::vector<Local> local;
};

Machine::Machine(const Description &d) : l1_(d.cores, PrivateCache(d.l1)), state_(new State(d)) {}
Machine::~Machine() = default;

const Description &Machine::description() const { return state_->d; }

void Machine::start(Ps at) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hierarchy.start(at);
}

bool Machine::miss(unsigned core, std::uint64_t insns, Line first, Line last, Use use, Ring ring) {
  State::Local &l = state_->local[core];
  const bool store = use == Use::store;
  const auto kind = store ? Event::Kind::store : Event::Kind::load;
  for (Line line = first; line <= last; line++) {
    // The first was looked up by the caller; again does no harm.
    if (l1_[core].hit(line, store)) continue;
    const PrivateCache::Victim victim = l1_[core].fill(line, store);
    l.log.push_back({insns, line, 0, kind, ring_of(ring)});
    if (victim.dirty)
      l.log.push_back({insns, victim.line, 0, Event::Kind::write_back, ring_of(ring)});
  }
  return l.log.size() >= l.enough;
}

void Machine::flush(unsigned core, std::uint64_t insns, std::uint64_t physical) {
  const Line line = physical / kLineBytes;
  const bool dirty = l1_[core].flush(line);
  state_->local[core].log.push_back({insns, line, dirty, Event::Kind::flush, 0});
}

Turn Machine::sync(unsigned core, const Progress &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->play();
  if (state_->hierarchy.backlog(core) > kBacklogMax) state_->settle(core, p);
  return state_->may_run(core) ? Turn::run : Turn::wait;
}

bool Machine::may_run(unsigned core) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->may_run(core);
}

void Machine::settle(unsigned core, const Progress &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->serialize(core, p);
  state_->settle(core, p);
}

void Machine::spend(unsigned core, const Progress &p, Ps ps, Ring ring) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->hierarchy.hand_over(core, {p.all(), ps, 0, Event::Kind::spend, ring_of(ring)});
  state_->play();
}

void Machine::sleep(unsigned core, const Progress &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->hierarchy.sleep(core);
  state_->play();
}

void Machine::wake(unsigned core, Ps at) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const std::uint64_t insns = state_->progress[core].all();
  state_->hierarchy.hand_over(core, {insns, at, 0, Event::Kind::wake, 0});
  state_->hierarchy.awake(core);
  state_->play();
}

Ps Machine::now(unsigned core, std::uint64_t insns) const {
  return state_->hierarchy.time(core, insns);
}

std::uint64_t Machine::tsc(unsigned core, std::uint64_t insns) const {
  const unsigned __int128 ticks =
      static_cast<unsigned __int128>(now(core, insns)) * (state_->d.tsc_hz / 1'000'000);
  return static_cast<std::uint64_t>(ticks / 1'000'000);
}

Ps Machine::horizon() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->horizon();
}

Cpuid Machine::cpuid(unsigned, std::uint32_t leaf, std::uint32_t subleaf,
                     const Cpuid &of_qemu) const {
  return cpuid_of(state_->d, leaf, subleaf, of_qemu);
}

Msr Machine::rdmsr(unsigned core, const Progress &p, std::uint32_t msr, std::uint64_t *value) {
  if (!is_rdt(msr) && !is_pmu(msr)) return Msr::not_ours;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (is_pmu(msr) || msr == msr::kQmCtr) state_->settle(core, p);
  if (is_rdt(msr)) return state_->hierarchy.rdt().read(core, msr, state_->hierarchy.cache(), value);
  return state_->pmus[core].read(msr, state_->counts(core), value);
}

Msr Machine::wrmsr(unsigned core, const Progress &p, std::uint32_t msr, std::uint64_t value) {
  if (!is_rdt(msr) && !is_pmu(msr)) return Msr::not_ours;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (is_rdt(msr)) {
    Rdt &rdt = state_->hierarchy.rdt();
    const Msr done = rdt.write(core, msr, value);
    if (done != Msr::handled || msr != msr::kPqrAssoc) return done;
    // What the core did before is still played as of its old class.
    const Class c = rdt.assigned(core);
    state_->hand_over(core, p);
    state_->hierarchy.hand_over(core, {p.all(), c.rmid, c.clos, Event::Kind::assign, 0});
    state_->play();
    return done;
  }
  state_->serialize(core, p);
  state_->settle(core, p);
  return state_->pmus[core].write(msr, state_->counts(core), value);
}

bool Machine::rdpmc(unsigned core, const Progress &p, std::uint32_t selector,
                    std::uint64_t *value) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->settle(core, p);
  return state_->pmus[core].rdpmc(selector, state_->counts(core), value);
}

void Machine::attach_bar(void *page, std::uint64_t guest_physical) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->registers.attach(static_cast<std::uint64_t *>(page),
                           state_->hierarchy.channel().registers());
  bar_ = page == nullptr ? kNowhere : guest_physical;
}

void Machine::move_bar(std::uint64_t guest_physical) { bar_ = guest_physical; }

void Machine::loaded(unsigned, std::uint64_t, std::uint64_t physical, unsigned bytes,
                     std::uint64_t value) {
  const std::uint64_t offset = physical - bar_;
  if (offset >= kBarBytes) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->registers.loaded(offset, bytes, value, &state_->hierarchy.channel().registers());
}

void Machine::stored(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
                     std::uint64_t value) {
  const std::uint64_t offset = physical - bar_;
  RegisterWrite w;
  if (offset < kBarBytes) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    w = state_->registers.stored(offset, bytes, value, state_->hierarchy.channel().registers());
    shadow_ = state_->registers.shadow() == 0 ? kNowhere : state_->registers.shadow();
  } else {
    w = Registers::shadowed(physical - shadow_, bytes, value, state_->d.cores);
  }
  if (w.is) state_->local[core].log.push_back({insns, w.offset, w.value, Event::Kind::set, 0});
}

void Machine::report(std::ostream &out) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<Sources> counts;
  for (unsigned i = 0; i < state_->d.cores; i++) counts.push_back(state_->counts(i));
  state_->truth.write(out, state_->horizon(), counts, &state_->hierarchy);
}

}  // namespace drfq::machine
