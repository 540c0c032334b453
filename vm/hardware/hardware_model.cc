// SPDX-License-Identifier: GPL-2.0-only
#include "hardware_model.hh"

#include <algorithm>
#include <mutex>
#include <ostream>

#include "combining_buffers.hh"
#include "cpuid.hh"
#include "memory_hierarchy.hh"
#include "pmu.hh"
#include "ground_truth.hh"

namespace drfq::hardware {
namespace {

/// A core's log is played back without regard to slower cores when it grows beyond this. It bounds
/// memory; only an emulator that ignores must_wait reaches it.
constexpr std::size_t kBacklogMax = 65536;

/// Entries of a core's log between two calls of sync(): the first time, and at most.
constexpr std::size_t kLogFirst = 16, kLogMax = 2048;

std::uint8_t ring_of(Ring r) { return r == Ring::user; }

bool is_rdt(std::uint32_t m) { return m >= msr::kQmEvtsel && m < msr::kMbaDelay + 128; }

}  // namespace

struct HardwareModel::State {
  explicit State(const MachineDescription &desc)
      : d(desc),
        hierarchy(desc),
        ground_truth(desc),
        retired(desc.cores),
        registers(desc.cores, desc.mailbox),
        local(desc.cores) {
    for (unsigned i = 0; i < desc.cores; i++) pmus.emplace_back(desc);
  }

  /// Used by the core's own thread only.
  struct alignas(64) Local {
    std::vector<LogEntry> log;
    std::size_t sync_at = kLogFirst;  ///< entries after which access() asks for a sync
    std::uint64_t space = kNoSpace;   ///< that the core executes
    std::uint64_t dropped = 0;        ///< lines of the device that its private cache has dropped
    CombiningBuffers combining;       ///< lines that its private cache lacks
  };

  void hand_over(unsigned core, const RetiredInsns &p) {
    Local &l = local[core];
    RetiredInsns &known = retired[core];
    known.user = std::max(known.user, p.user);
    known.kernel = std::max(known.kernel, p.kernel);
    hierarchy.hand_over(core, l.log, known.total());
    l.log.clear();
  }

  /// Bounds the core's next log so that its stalls take a quantum.
  void plan_log(unsigned core) {
    const Ps stall = std::max<Ps>(1, hierarchy.mean_stall(core));
    local[core].sync_at = std::clamp<std::size_t>(d.quantum / stall, 1, kLogMax);
  }

  void play() {
    hierarchy.play();
    publish_traffic();
  }

  /// CPUID and WRMSR wait for all earlier misses (Intel SDM, volume 3, "Serializing Instructions"),
  /// so a stall is counted before them, as its miss is. WRMSR does so here only for counters: for
  /// other MSRs software could not observe the difference.
  void add_fence(unsigned core, const RetiredInsns &p) {
    hand_over(core, p);
    hierarchy.hand_over(core, {p.total(), 0, 0, LogEntry::Kind::fence, 0});
  }

  void drain(unsigned core, const RetiredInsns &p) {
    hand_over(core, p);
    hierarchy.play();
    hierarchy.drain(core);
    publish_traffic();
  }

  void publish_traffic() {
    const std::vector<Pid> pids = hierarchy.take_charged();
    if (!pids.empty()) registers.publish_traffic(pids, hierarchy.memory_port().registers());
  }

  bool may_run(unsigned core) const {
    if (hierarchy.is_played(core)) return true;
    return hierarchy.estimate(core) <= slowest_clock() + d.quantum;
  }

  Ps slowest_clock() const {
    Ps least = kNever, most = 0;
    for (unsigned i = 0; i < d.cores; i++) {
      const Ps at = hierarchy.earliest_end(i);
      most = std::max(most, at);
      if (!hierarchy.is_asleep(i)) least = std::min(least, at);
    }
    return least == kNever ? most : least;
  }

  CountsByRing counts(unsigned core) const {
    CountsByRing s = hierarchy.counts(core);
    const std::uint64_t done[2] = {retired[core].kernel, retired[core].user};
    for (unsigned ring = 0; ring < 2; ring++) {
      s.ring[ring][Quantity::insns] = done[ring];
      s.ring[ring][Quantity::busy_ps] += hierarchy.insn_time(done[ring]);
    }
    return s;
  }

  const MachineDescription d;
  mutable std::mutex mutex;  // guards everything except local
  MemoryHierarchy hierarchy;
  GroundTruth ground_truth;
  std::vector<Pmu> pmus;
  std::vector<RetiredInsns> retired;
  PciRegisters registers;
  std::vector<Local> local;
  std::unique_ptr<InputLog> record;
};

HardwareModel::HardwareModel(const MachineDescription &d)
    : l1_(d.cores, PrivateCache(d.l1)), stores_stream_(d.streaming_stores), state_(new State(d)) {}
HardwareModel::~HardwareModel() = default;

const MachineDescription &HardwareModel::description() const { return state_->d; }

void HardwareModel::record(std::unique_ptr<InputLog> log) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hierarchy.record_clocks();
  state_->record = std::move(log);
  state_->hierarchy.record(state_->record.get());
}

void HardwareModel::start(Ps at) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hierarchy.start(at);
  state_->ground_truth.start(at);
}

AccessResult HardwareModel::miss(unsigned core, std::uint64_t insns, Line first, Line last,
                                 AccessKind use, Ring ring) {
  State::Local &l = state_->local[core];
  const bool store = use != AccessKind::load;
  const auto kind = store ? LogEntry::Kind::store : LogEntry::Kind::load;
  for (Line line = first; line <= last; line++) {
    // access() has already looked up the first line; a second lookup changes nothing.
    if (l1_[core].hit(line, store)) continue;
    l.combining.drop(line);
    const PrivateCache::Victim victim = l1_[core].fill(line, store);
    l.log.push_back({insns, line, 0, kind, ring_of(ring)});
    if (victim.dirty)
      l.log.push_back({insns, victim.line, 0, LogEntry::Kind::write_back, ring_of(ring)});
  }
  return l.log.size() >= l.sync_at ? AccessResult::sync : AccessResult::miss;
}

/// A line leaves for memory when its first word is stored. Words that follow while it holds a
/// buffer cost nothing.
AccessResult HardwareModel::stream(unsigned core, std::uint64_t insns, std::uint64_t physical,
                                   unsigned bytes, Ring ring) {
  State::Local &l = state_->local[core];
  AccessResult result = AccessResult::hit;
  const std::uint64_t end = physical + bytes;
  for (std::uint64_t next = 0; physical < end; physical = next) {
    const Line line = physical / kLineBytes;
    next = std::min(end, (line + 1) * kLineBytes);
    if (!l.combining.store(line, physical % kLineBytes, next - physical)) continue;
    l1_[core].flush(line);
    l.log.push_back({insns, line, 0, LogEntry::Kind::stream, ring_of(ring)});
    result = l.log.size() >= l.sync_at ? AccessResult::sync : AccessResult::miss;
  }
  return result;
}

void HardwareModel::flush(unsigned core, std::uint64_t insns, std::uint64_t physical) {
  const Line line = physical / kLineBytes;
  const bool dirty = l1_[core].flush(line);
  state_->local[core].combining.drop(line);
  state_->local[core].log.push_back({insns, line, dirty, LogEntry::Kind::flush, 0});
}

SyncResult HardwareModel::sync(unsigned core, const RetiredInsns &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->play();
  if (state_->hierarchy.backlog(core) > kBacklogMax) state_->drain(core, p);
  state_->plan_log(core);
  drop_stored_lines(core);
  return state_->may_run(core) ? SyncResult::may_run : SyncResult::must_wait;
}

bool HardwareModel::may_run(unsigned core) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->may_run(core);
}

void HardwareModel::drain(unsigned core, const RetiredInsns &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->add_fence(core, p);
  state_->drain(core, p);
}

void HardwareModel::add_busy_time(unsigned core, const RetiredInsns &p, Ps ps, Ring ring) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->hierarchy.hand_over(core, {p.total(), ps, 0, LogEntry::Kind::busy, ring_of(ring)});
  state_->play();
}

void HardwareModel::sleep(unsigned core, const RetiredInsns &p) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hand_over(core, p);
  state_->hierarchy.sleep(core);
  state_->play();
}

void HardwareModel::wake(unsigned core, Ps at) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const std::uint64_t insns = state_->retired[core].total();
  state_->hierarchy.hand_over(core, {insns, at, 0, LogEntry::Kind::wake, 0});
  state_->hierarchy.wake(core);
  state_->play();
}

Ps HardwareModel::now(unsigned core, std::uint64_t insns) const {
  return state_->hierarchy.time(core, insns);
}

std::uint64_t HardwareModel::tsc(unsigned core, std::uint64_t insns) const {
  const unsigned __int128 ticks =
      static_cast<unsigned __int128>(now(core, insns)) * (state_->d.tsc_hz / 1'000'000);
  return static_cast<std::uint64_t>(ticks / 1'000'000);
}

Ps HardwareModel::slowest_clock() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->slowest_clock();
}

void HardwareModel::start_transfer(unsigned core, std::uint64_t insns, Transfer t) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->local[core].log.push_back({insns, t.id, 0, LogEntry::Kind::start_transfer, 0});
  state_->hierarchy.expect(std::move(t));
}

void HardwareModel::cancel_transfers() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->hierarchy.cancel_transfers();
}

std::vector<FinishedTransfer> HardwareModel::take_finished() {
  if (state_->d.storage.queues == 0) return {};
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->hierarchy.take_finished();
}

bool HardwareModel::device_is_busy() const {
  if (state_->d.storage.queues == 0) return false;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->hierarchy.device_is_busy();
}

/// Private caches drop lines that the device has stored to memory. A core does so on its own
/// thread. One that slept for long misses the oldest lines.
void HardwareModel::drop_stored_lines(unsigned core) {
  const MemoryHierarchy &h = state_->hierarchy;
  const std::uint64_t stored = h.lines_stored();
  std::uint64_t &next = state_->local[core].dropped;
  if (stored - next > MemoryHierarchy::kStoredLines) next = stored - MemoryHierarchy::kStoredLines;
  for (; next != stored; next++) l1_[core].flush(h.stored_line(next));
}

Cpuid HardwareModel::cpuid(unsigned, std::uint32_t leaf, std::uint32_t subleaf,
                           const Cpuid &of_qemu) const {
  return cpuid_of(state_->d, leaf, subleaf, of_qemu);
}

MsrResult HardwareModel::rdmsr(unsigned core, const RetiredInsns &p, std::uint32_t msr,
                               std::uint64_t *value) {
  // Without the lock: the kernel reads many other MSRs.
  if (!is_rdt(msr) && !msr::is_pmu(msr)) return MsrResult::not_ours;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (msr::counts(msr)) state_->drain(core, p);
  if (is_rdt(msr)) return state_->hierarchy.rdt().read(core, msr, state_->hierarchy.cache(), value);
  return state_->pmus[core].read(msr, state_->counts(core), value);
}

MsrResult HardwareModel::wrmsr(unsigned core, const RetiredInsns &p, std::uint32_t msr,
                               std::uint64_t value) {
  if (!is_rdt(msr) && !msr::is_pmu(msr)) return MsrResult::not_ours;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (is_rdt(msr)) {
    const MsrResult done = state_->hierarchy.write_rdt(core, msr, value);
    if (done != MsrResult::handled || msr != msr::kPqrAssoc) return done;
    // Log entries before this one keep the old class.
    const RdtClass c = state_->hierarchy.rdt().class_of(core);
    state_->hand_over(core, p);
    state_->hierarchy.hand_over(core, {p.total(), c.rmid, c.clos, LogEntry::Kind::set_class, 0});
    state_->play();
    return done;
  }
  state_->add_fence(core, p);
  state_->drain(core, p);
  return state_->pmus[core].write(msr, state_->counts(core), value);
}

bool HardwareModel::rdpmc(unsigned core, const RetiredInsns &p, std::uint32_t selector,
                          std::uint64_t *value) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->drain(core, p);
  return state_->pmus[core].rdpmc(selector, state_->counts(core), value);
}

void HardwareModel::attach_bar(void *page, std::uint64_t guest_physical) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->registers.attach(static_cast<std::uint64_t *>(page),
                           state_->hierarchy.memory_port().registers());
  bar_ = page == nullptr ? kNowhere : guest_physical;
}

void HardwareModel::loaded(unsigned, std::uint64_t, std::uint64_t physical, unsigned bytes,
                           std::uint64_t value) {
  const std::uint64_t offset = physical - bar_;
  if (offset >= kBarBytes) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->registers.bar_loaded(offset, bytes, value, &state_->hierarchy.memory_port().registers());
}

bool HardwareModel::stored(unsigned core, std::uint64_t insns, std::uint64_t physical,
                           unsigned bytes, std::uint64_t value) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  PciRegisters &registers = state_->registers;
  const RegisterFile &file = state_->hierarchy.memory_port().registers();
  const std::vector<RegisterWrite> writes =
      in_bar(physical) ? registers.bar_stored(physical - bar_, bytes, value, file)
                       : registers.mailbox_stored(physical - mailbox_, bytes, value);
  for (const RegisterWrite &w : writes)
    state_->local[core].log.push_back(
        {insns, w.offset, w.value, LogEntry::Kind::write_register, 0});
  const std::uint64_t page = registers.mailbox_page();
  return mailbox_.exchange(page == 0 ? kNowhere : page) != (page == 0 ? kNowhere : page);
}

void HardwareModel::set_space(unsigned core, std::uint64_t insns, std::uint64_t cr3) {
  // The low bits are a PCID, and bit 12 tells the two page tables of a program apart (Linux,
  // Documentation/arch/x86/pti.rst).
  constexpr std::uint64_t kPageTable = 0x000fffffffffe000;
  State::Local &l = state_->local[core];
  if (l.space == (cr3 & kPageTable)) return;
  l.space = cr3 & kPageTable;
  l.log.push_back({insns, l.space, 0, LogEntry::Kind::set_space, 0});
}

void HardwareModel::write_ground_truth(std::ostream &out) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<CountsByRing> counts;
  for (unsigned i = 0; i < state_->d.cores; i++) counts.push_back(state_->counts(i));
  state_->hierarchy.record_clocks();
  state_->ground_truth.write(out, state_->slowest_clock(), counts, &state_->hierarchy);
}

}  // namespace drfq::hardware
