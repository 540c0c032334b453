// SPDX-License-Identifier: GPL-2.0-only
// Everything beyond the private caches, played back in the order of simulated
// time from the logs of the cores: shared cache, prefetchers, throttling, memory,
// and the clocks of the cores that all this holds up.
//
// A core with a window of 0 waits for each miss; otherwise it goes on for window
// instructions behind its oldest miss, with at most so many misses on their way.
#ifndef DRFQ_MACHINE_HIERARCHY_HH
#define DRFQ_MACHINE_HIERARCHY_HH

#include <atomic>
#include <deque>
#include <vector>

#include "dram.hh"
#include "pmu.hh"
#include "prefetch.hh"
#include "rdt.hh"

namespace drfq::machine {

/// Something that a core did, in its program order.
struct Event {
  enum class Kind : std::uint8_t {
    load,        ///< missed the private cache; arg: line
    store,       ///< the same, for ownership
    write_back,  ///< a dirty line left the private cache; arg: line
    flush,       ///< arg: line; extra: whether it was dirty
    assign,      ///< arg: rmid, extra: clos
    spend,       ///< arg: ps that pass
    wake,        ///< arg: time before which the core does not go on
    set,         ///< a controller register; arg: offset, extra: value
    fence,       ///< nothing goes on before all misses are back
  };
  std::uint64_t insns = 0;  ///< retired before it
  std::uint64_t arg = 0;
  std::uint64_t extra = 0;
  Kind kind = Kind::load;
  std::uint8_t ring = 0;  ///< 0 kernel, 1 user
};

/// Bytes that moved to and from memory.
struct Moved {
  std::uint64_t read = 0, write = 0;
};

class Hierarchy : private Channel::Client {
 public:
  explicit Hierarchy(const Description &);

  void start(Ps at);

  /// What a core did until it had retired end instructions.
  void hand_over(unsigned core, const std::vector<Event> &, std::uint64_t end);
  void hand_over(unsigned core, const Event &);
  void sleep(unsigned core) { cores_[core].asleep = true; }
  void awake(unsigned core) { cores_[core].asleep = false; }

  /// Plays back as far as the slowest core that runs has come.
  void play();
  /// Plays back all that the core handed over.
  void settle(unsigned core);

  /// The clock at so many instructions; from any thread.
  Ps time(unsigned core, std::uint64_t insns) const {
    return insn_time(insns) + cores_[core].offset.load(std::memory_order_relaxed);
  }
  /// Time that so many instructions take.
  Ps insn_time(std::uint64_t insns) const {
    return static_cast<Ps>((static_cast<unsigned __int128>(insns) * insn_q32_) >> 32);
  }

  bool is_played(unsigned core) const { return is_dry(cores_[core]); }
  std::size_t backlog(unsigned core) const { return cores_[core].todo.size(); }
  /// Where the core will be when all is played, by what its events cost so far.
  Ps estimate(unsigned core) const;
  /// Mean cost of a logged event lately, ps.
  Ps cost(unsigned core) const { return cores_[core].cost; }
  bool is_asleep(unsigned core) const { return cores_[core].asleep; }
  /// Where the core is at least when all that it handed over is played.
  Ps handed_over(unsigned core) const {
    const Core &c = cores_[core];
    const Ps at = time(core, c.end);
    return c.blocked != Blocked::no && played_ > c.blocked_at ? at + (played_ - c.blocked_at) : at;
  }

  Rdt &rdt() { return rdt_; }
  const Rdt &rdt() const { return rdt_; }
  const SharedCache &cache() const { return llc_; }
  Channel &channel() { return channel_; }
  /// Counts of one core, without instructions, which only the host knows by ring.
  const Sources &counts(unsigned core) const { return cores_[core].counts; }
  const Moved &moved(unsigned core) const { return cores_[core].moved; }
  const Moved &moved_by_pid(Pid pid) const { return by_pid_[pid]; }
  const Moved &moved_by_rmid(unsigned rmid) const { return by_rmid_[rmid]; }

  /// Pids whose traffic changed since the last call, each once.
  std::vector<Pid> take_charged();

 private:
  struct Miss {
    std::uint64_t insns;
    Line line;
    Ps done;  ///< kNever: on its way
    std::uint8_t ring;
  };
  enum class Blocked : std::uint8_t { no, miss, writes };

  struct Core {
    explicit Core(const PrefetchShape &p) : prefetcher(p) {}
    std::deque<Event> todo;
    std::uint64_t end = 0;      ///< handed over so far, instructions
    std::uint64_t point = 0;    ///< played so far
    std::atomic<Ps> offset{0};  ///< of its clock over the time of its instructions
    Ps next = 0;                ///< time of its next step; kNever while blocked
    bool asleep = false;
    Blocked blocked = Blocked::no;
    Ps blocked_at = 0;
    std::uint8_t blocked_ring = 0;
    std::deque<Miss> misses;  ///< on their way or not waited for, oldest first
    bool fenced = false;      ///< waits for all of them
    unsigned prefetches = 0;  ///< on their way
    Ps gate = 0;              ///< when the last reference was let through
    Ps port = 0;              ///< when the last line was asked for
    Class cls;
    Prefetcher prefetcher;
    Sources counts;
    Moved moved;
    Ps cost = 0;
  };

  /// A line that was asked for and is not here yet.
  struct Coming {
    Line line;
    unsigned core;  ///< that asked
    bool prefetch;
  };

  void play_until(unsigned core);
  unsigned slowest(bool force, Ps *at) const;
  void step(unsigned core);
  void perform(unsigned core, const Event &);
  void reference(unsigned core, const Event &);
  void remember(const Miss &, Ps now, Core *);
  void fetch(unsigned core, Line, std::uint8_t ring, bool prefetch, Ps now);
  void prefetch(unsigned core, Line, std::uint8_t ring, Ps now);
  SharedCache::Meta *fill(unsigned core, Line, std::uint8_t ring, Ps at);
  void write_back(unsigned core, Line, std::uint8_t ring, Ps now);
  void to_memory(unsigned core, Line, std::uint16_t rmid, std::uint8_t ring, Ps at);
  Ps throttle(unsigned core, Ps at, Ps takes);
  bool waits(const Core &) const;
  bool is_dry(const Core &) const;
  void block(unsigned core, Blocked, std::uint8_t ring, Ps now);
  void go_on(unsigned core, Ps now);
  void lose(unsigned core, Ps, std::uint8_t ring);
  void plan(unsigned core);

  void arrived(Line, Ps now) override;
  void drained(unsigned core, Ps now) override;
  void charged(Pid, Dir, unsigned bytes) override;

  const Description d_;
  std::uint64_t insn_q32_;  // ps of one instruction, times 2^32
  Ps idle_latency_;         // of a miss
  Ps spacing_;              // of the requests of one core
  SharedCache llc_;
  Rdt rdt_;
  Channel channel_;
  std::deque<Core> cores_;  // they do not move
  std::vector<Coming> coming_;
  std::vector<Moved> by_pid_, by_rmid_;
  std::vector<Pid> charged_;
  std::vector<bool> is_charged_;
  bool woken_ = false;  // a core that was blocked goes on
  Ps played_ = 0;       // all that happens before then has happened
};

}  // namespace drfq::machine

#endif
