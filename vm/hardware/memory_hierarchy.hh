// SPDX-License-Identifier: GPL-2.0-only
// Everything beyond the private caches: the shared cache, prefetchers, throttling, memory, and the
// cores' clocks, which memory stalls move forward. Cores hand over logs of what they did. This
// class plays the logs back in the order of simulated time.
//
// A core with a window of 0 waits for each miss. With a window of n it retires up to n instructions
// past its oldest miss, with a limited number of misses in flight.
#ifndef DRFQ_HARDWARE_MEMORY_HIERARCHY_HH
#define DRFQ_HARDWARE_MEMORY_HIERARCHY_HH

#include <atomic>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core_counts.hh"
#include "dma_engine.hh"
#include "input_log.hh"
#include "log_entry.hh"
#include "memory_port.hh"
#include "prefetcher.hh"
#include "rdt.hh"

namespace drfq::hardware {

/// Bytes that programs read, by address space and by the hardware id that the controller charged.
using ReadsBySpace = std::map<std::pair<std::uint64_t, Pid>, std::uint64_t>;

/// Bytes read from and written to memory.
struct TrafficBytes {
  std::uint64_t read = 0, write = 0;
};

class MemoryHierarchy : private MemoryPort::Client {
 public:
  explicit MemoryHierarchy(const MachineDescription &);

  /// Writes to a log what this class is told from now on; null ends that.
  void record(InputLog *log) { record_ = log; }
  /// Writes the cores' clocks and traffic to that log.
  void record_clocks();

  void start(Ps at);

  /// Appends to a core's log. end: instructions that the core retired when the log ended.
  void hand_over(unsigned core, const std::vector<LogEntry> &, std::uint64_t end);
  void hand_over(unsigned core, const LogEntry &);
  /// Keeps a transfer until the log entry that starts it is played back.
  void expect(Transfer);
  void cancel_transfers();
  const DmaEngine &device() const { return dma_; }
  /// Whether a transfer that was expected is unfinished.
  bool device_is_busy() const { return dma_.busy() || !expected_.empty(); }
  std::vector<FinishedTransfer> take_finished();
  /// Lines that the device has stored to memory: one number each, and how many there were.
  std::uint64_t lines_stored() const { return lines_stored_; }
  /// One of the last kStoredLines of these lines.
  Line stored_line(std::uint64_t number) const { return stored_[number % kStoredLines]; }
  static constexpr std::uint64_t kStoredLines = 32768;
  void sleep(unsigned core);
  void wake(unsigned core);

  /// Plays back up to the clock of the slowest running core.
  void play();
  /// Plays back all that this core handed over, even if other cores lag behind.
  void drain(unsigned core);

  /// The core's clock when it has retired this many instructions. Any thread may call it.
  Ps time(unsigned core, std::uint64_t insns) const {
    return insn_time(insns) + cores_[core].clock_offset.load(std::memory_order_relaxed);
  }
  /// Time that this many instructions take without stalls.
  Ps insn_time(std::uint64_t insns) const {
    return static_cast<Ps>((static_cast<unsigned __int128>(insns) * insn_q32_) >> 32);
  }

  bool is_played(unsigned core) const { return has_played_all(cores_[core]); }
  /// Log entries not yet played back.
  std::size_t backlog(unsigned core) const { return cores_[core].log.size(); }
  /// The core's clock at the end of what it handed over, without stalls that are not played back.
  Ps clock(unsigned core) const { return time(core, cores_[core].end); }
  /// Estimate of the core's clock once its log is played back: its lower bound, its busy entries,
  /// and the mean stall of each entry.
  Ps estimate(unsigned core) const;
  /// Moving average of the stall per logged access, in ps.
  Ps mean_stall(unsigned core) const { return cores_[core].mean_stall; }
  bool is_asleep(unsigned core) const { return cores_[core].asleep; }
  /// A lower bound of the core's clock once its log is played back.
  Ps earliest_end(unsigned core) const {
    const CoreState &c = cores_[core];
    const Ps at = time(core, c.end);
    return c.blocked != Blocked::no && played_ > c.blocked_at ? at + (played_ - c.blocked_at) : at;
  }

  const Rdt &rdt() const { return rdt_; }
  MsrResult write_rdt(unsigned core, std::uint32_t msr, std::uint64_t value);
  const SharedCache &cache() const { return llc_; }
  MemoryPort &memory_port() { return port_; }
  /// One core's counts. Instructions are missing: only the emulator knows them by ring.
  const CountsByRing &counts(unsigned core) const { return cores_[core].counts; }
  const TrafficBytes &traffic(unsigned core) const { return cores_[core].traffic; }
  const TrafficBytes &traffic_by_pid(Pid pid) const { return by_pid_[pid]; }
  const TrafficBytes &traffic_by_rmid(unsigned rmid) const { return by_rmid_[rmid]; }
  /// What user-mode code read since the last call, its prefetches included. The address spaces
  /// come from CR3, so this account is independent of what the registers say.
  ReadsBySpace take_reads_by_space() { return std::exchange(by_space_, {}); }

  /// Pids whose traffic changed since the last call, each once.
  std::vector<Pid> take_charged();

 private:
  struct Miss {
    std::uint64_t insns;  ///< retired before it
    Line line;
    Ps done;  ///< when the line arrived; kNever: it is in flight
    std::uint8_t ring;
  };
  enum class Blocked : std::uint8_t { no, miss, writes };
  /// Whether and when the shared cache takes a line of the device.
  enum class Takes : std::uint8_t { no, at_once, after_write_back };

  struct CoreState {
    explicit CoreState(const PrefetcherConfig &p) : prefetcher(p) {}
    std::deque<LogEntry> log;         ///< not yet played back
    std::uint64_t end = 0;            ///< instructions handed over
    std::uint64_t played = 0;         ///< instructions played back
    Ps unplayed_busy = 0;             ///< sum of the busy entries in the log
    std::atomic<Ps> clock_offset{0};  ///< clock minus the time of its instructions
    Ps next = 0;                      ///< time of its next step; kNever while blocked
    bool asleep = false;
    Blocked blocked = Blocked::no;
    Ps blocked_at = 0;
    std::uint8_t blocked_ring = 0;
    std::deque<Miss> misses;  ///< oldest first: in flight, or arrived and not yet waited for
    bool fenced = false;      ///< waits for all its misses
    unsigned prefetches = 0;  ///< in flight
    Ps throttled_until = 0;   ///< throttling lets no reference through before
    Ps last_request = 0;      ///< when it last requested a line from memory
    RdtClass rdt_class;
    std::uint64_t space = kNoSpace;
    Prefetcher prefetcher;
    CountsByRing counts;
    TrafficBytes traffic;
    Ps mean_stall = 0;
  };

  struct InFlightLine {
    Line line;
    unsigned core;  ///< that requested it
    bool prefetch;
  };

  static void append(const LogEntry &, CoreState *);
  void play_until(unsigned core);
  unsigned slowest(bool force, Ps *at) const;
  void step(unsigned core);
  void wait_for_oldest_miss(unsigned core);
  void play_entry(unsigned core, const LogEntry &);
  void flush(unsigned core, const LogEntry &);
  void stream(unsigned core, const LogEntry &);
  void reference(unsigned core, const LogEntry &);
  void track_miss(const Miss &, Ps now, CoreState *);
  void fetch(unsigned core, Line, std::uint8_t ring, bool prefetch, Ps now);
  void prefetch(unsigned core, Line, std::uint8_t ring, bool own, Ps now);
  SharedCache::LineState *fill(unsigned core, Line, Ps at);
  void write_back(unsigned core, Line, std::uint8_t ring, Ps now);
  void to_memory(unsigned core, Line, std::uint16_t rmid, Ps at);
  Ps throttle(unsigned core, Ps at, Ps duration);
  bool must_wait_for_miss(const CoreState &) const;
  bool has_played_all(const CoreState &) const;
  void block(unsigned core, Blocked, std::uint8_t ring, Ps now);
  void unblock(unsigned core, Ps now);
  void add_stall(unsigned core, Ps, std::uint8_t ring);
  void plan_next_step(unsigned core);
  Ps memory_limit(unsigned core, Ps at) const;
  void start_transfer(unsigned core, std::uint64_t id, Ps now);
  void move_piece(Ps now);
  Takes cache_takes(const DmaEngine::Piece &, Ps now);
  void write_back_for_device(Line, const SharedCache::LineState &, std::uint64_t cookie, Ps now);

  void line_arrived(Line, Ps now) override;
  void write_accepted(unsigned core, Ps now) override;
  void packet_accepted(Pid, Dir, unsigned bytes, std::uint64_t space) override;
  void device_done(std::uint64_t cookie, Ps now) override;

  const MachineDescription d_;
  std::uint64_t insn_q32_;  // ps of one instruction, times 2^32
  Ps idle_latency_;         // of a miss
  Ps request_spacing_;      // least time between two memory requests of one core
  SharedCache llc_;
  Rdt rdt_;
  MemoryPort port_;
  DmaEngine dma_;
  std::map<std::uint64_t, Transfer> expected_;
  std::vector<Line> stored_;
  std::uint64_t lines_stored_ = 0;
  std::deque<CoreState> cores_;  // a deque because CoreState cannot move
  std::vector<InFlightLine> in_flight_;
  std::vector<TrafficBytes> by_pid_, by_rmid_;
  ReadsBySpace by_space_;
  std::vector<Pid> charged_;
  std::vector<bool> is_charged_;
  unsigned last_asleep_ = 0;  // the core that went to sleep last
  bool unblocked_ = false;    // a memory event has unblocked a core
  Ps played_ = 0;             // everything before this time is played back
  InputLog *record_ = nullptr;
};

}  // namespace drfq::hardware

#endif
