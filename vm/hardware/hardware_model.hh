// SPDX-License-Identifier: GPL-2.0-only
// The hardware that an emulator lacks: caches, prefetchers, memory contention, RDT, performance
// counters, and the simulated clocks that they drive. The emulator executes the instructions; this
// class computes what they cost and what software can observe of it.
//
// Simulated time. A core's clock is the sum of its instructions' time, its memory stalls, and the
// time that it was halted. The emulator's thread looks up the private cache at once and only logs
// what misses there. sync() hands the log to the memory hierarchy (memory_hierarchy.hh). That
// plays back the logs of all cores in the order of simulated time, up to the clock of the slowest
// running core. Timing is therefore a function of the logs. It depends neither on the host's load
// nor on the order in which the emulator's threads call.
//
// The emulator runs this loop for each core:
//
//   on each data access:   if (hardware.access(...) == AccessResult::sync) request a sync soon
//   at least each quantum: if (hardware.sync(core, retired) == SyncResult::must_wait)
//                            wait, for a bounded time, until may_run(core)
//
// Threads: access(), flush(), watches(), now() and tsc() belong to the core's own thread and take
// no lock. All other functions take one mutex, for microseconds.
#ifndef DRFQ_HARDWARE_HARDWARE_MODEL_HH
#define DRFQ_HARDWARE_HARDWARE_MODEL_HH

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "cache.hh"
#include "cpuid.hh"
#include "input_log.hh"
#include "machine_description.hh"
#include "msr.hh"
#include "pci_registers.hh"
#include "transfer.hh"

namespace drfq::hardware {

/// Instructions that a core has retired since the start, by ring.
struct RetiredInsns {
  std::uint64_t user = 0, kernel = 0;
  std::uint64_t total() const { return user + kernel; }
};

/// streaming: a non-temporal store.
enum class AccessKind : std::uint8_t { load, store, streaming };
enum class Ring : std::uint8_t { kernel, user };

/// sync: a miss, too, after which sync() is due soon. After a miss, the core's private cache may
/// lack a line that it had.
enum class AccessResult : std::uint8_t { hit, miss, sync };

/// must_wait: the core's clock is more than a quantum ahead of the slowest running core.
enum class SyncResult : std::uint8_t { may_run, must_wait };

class HardwareModel {
 public:
  explicit HardwareModel(const MachineDescription &);
  ~HardwareModel();
  HardwareModel(const HardwareModel &) = delete;
  HardwareModel &operator=(const HardwareModel &) = delete;

  const MachineDescription &description() const;
  /// Whether streaming stores bypass the caches; otherwise they are stores.
  bool stores_stream() const { return stores_stream_; }

  /// Writes to a log (input_log.hh) all that timing depends on. Call it before all others but
  /// description(). Null ends the log.
  void record(std::unique_ptr<InputLog>);

  // ---- Execution. core < description().cores everywhere.

  /// Starts all cores at this simulated time, with no instruction retired. Call it once, when the
  /// machine goes live. Until then simulated time is 0.
  void start(Ps at);

  /// One data access at a guest-physical address. insns: instructions that this core retired so
  /// far, both rings. An access that crosses a line counts for both lines. If stores_stream(), the
  /// bytes of streaming stores matter, for a line that is whole leaves its combining buffer.
  AccessResult access(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
                      AccessKind kind, Ring ring) {
    if (kind == AccessKind::streaming && stores_stream_)
      return stream(core, insns, physical, bytes, ring);
    const Line first = physical / kLineBytes, last = (physical + bytes - 1) / kLineBytes;
    if (l1_[core].hit(first, kind != AccessKind::load) && first == last) return AccessResult::hit;
    return miss(core, insns, first, last, kind, ring);
  }

  /// The core loads CR3. Ground truth shows what each address space read.
  void set_space(unsigned core, std::uint64_t insns, std::uint64_t cr3);

  /// CLFLUSH or CLFLUSHOPT: evicts the line from this core's private cache and the shared cache.
  void flush(unsigned core, std::uint64_t insns, std::uint64_t physical);

  /// Hands over the core's log and plays back as far as the slowest running core allows.
  SyncResult sync(unsigned core, const RetiredInsns &);
  /// Whether sync() would return may_run, now that other cores may have advanced.
  bool may_run(unsigned core);

  /// Plays back the core's whole log even if other cores lag behind, and waits for its misses as
  /// CPUID does. Counters are exact afterwards. The functions below that read counters play back by
  /// themselves; those that write counters also wait for misses.
  void drain(unsigned core, const RetiredInsns &);

  /// The core is busy for this time in this ring and retires nothing (PAUSE).
  void add_busy_time(unsigned core, const RetiredInsns &, Ps, Ring);
  /// The core halts. No other core waits for it until wake(). Halted time counts no cycles.
  void sleep(unsigned core, const RetiredInsns &);
  /// Ends a halt. Moves the core's clock forward to the given time if it is behind.
  void wake(unsigned core, Ps at);

  /// The core's clock, without the stalls and busy times of log entries that are not yet played
  /// back (at most about a quantum). It never decreases.
  Ps now(unsigned core, std::uint64_t insns) const;
  /// The same clock in ticks of tsc_hz.
  std::uint64_t tsc(unsigned core, std::uint64_t insns) const;
  /// The clock of the slowest running core. While all cores sleep: the clock of the fastest one.
  Ps slowest_clock() const;

  // ---- A device that moves data (dma_engine.hh).

  /// The core tells the device to start a transfer. The core's label at that point pays for it.
  void start_transfer(unsigned core, std::uint64_t insns, Transfer);
  /// Forgets all transfers, those that are finished and not taken included.
  void cancel_transfers();
  /// Transfers that have finished since the last call, and when to signal them.
  std::vector<FinishedTransfer> take_finished();
  /// Whether a transfer that the device was told to start is unfinished.
  bool device_is_busy() const;

  // ---- What software can read.

  /// of_qemu: the answer of the emulated CPU. Other leaves pass through.
  Cpuid cpuid(unsigned core, std::uint32_t leaf, std::uint32_t subleaf, const Cpuid &of_qemu) const;
  MsrResult rdmsr(unsigned core, const RetiredInsns &, std::uint32_t msr, std::uint64_t *value);
  MsrResult wrmsr(unsigned core, const RetiredInsns &, std::uint32_t msr, std::uint64_t value);
  /// False: no such counter (hardware raises #GP).
  bool rdpmc(unsigned core, const RetiredInsns &, std::uint32_t selector, std::uint64_t *value);

  // ---- The controller's registers (pci_registers.hh). The guest's loads read the BAR's memory
  // directly, so that memory always holds the present values. The emulator reports each load and
  // store after it happened.

  static constexpr std::uint64_t kBarBytes = PciRegisters::kBytes;

  /// page: host address of the BAR's memory (kBarBytes, 8-byte aligned), which this call fills.
  /// Null detaches. guest_physical: where the guest sees it.
  void attach_bar(void *page, std::uint64_t guest_physical);
  /// Whether accesses to this address must be reported to loaded() or stored(). Those to the
  /// mailbox's page are accesses to memory, too.
  bool watches(std::uint64_t physical) const {
    return in_bar(physical) ||
           physical - mailbox_.load(std::memory_order_relaxed) < PciRegisters::kMailboxPageBytes;
  }
  bool in_bar(std::uint64_t physical) const {
    return physical - bar_.load(std::memory_order_relaxed) < kBarBytes;
  }
  /// value: the loaded or stored value. Only accesses of 8 bytes reach registers. Stores to the
  /// mailbox's page act in the program order of the storing core.
  void loaded(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
              std::uint64_t value);
  /// Returns whether watches() has changed.
  bool stored(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
              std::uint64_t value);

  /// Writes one line of JSON with everything since the last call (ground_truth.hh).
  void write_ground_truth(std::ostream &);

 private:
  struct State;

  void drop_stored_lines(unsigned core);

  AccessResult miss(unsigned core, std::uint64_t insns, Line first, Line last, AccessKind, Ring);
  AccessResult stream(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
                      Ring);

  std::vector<PrivateCache> l1_;
  const bool stores_stream_;
  // A guest-physical address that is never used.
  static constexpr std::uint64_t kNowhere = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> bar_{kNowhere}, mailbox_{kNowhere};
  std::unique_ptr<State> state_;
};

}  // namespace drfq::hardware

#endif
