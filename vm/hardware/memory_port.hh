// SPDX-License-Identifier: GPL-2.0-only
// The way from the shared cache to memory: requests that wait for their time or for room in the
// controller. The controller and the DRAM behind it are gem5-backend's.
#ifndef DRFQ_HARDWARE_MEMORY_PORT_HH
#define DRFQ_HARDWARE_MEMORY_PORT_HH

#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "bank_hash.hh"
#include "cache.hh"
#include "machine_description.hh"

namespace drfq::hardware {

/// No program's address space.
inline constexpr std::uint64_t kNoSpace = 0;

class MemoryPort : private Listener {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    /// The line of a read has arrived.
    virtual void line_arrived(Line, Ps now) = 0;
    /// The controller accepted a waiting write of this core.
    virtual void write_accepted(unsigned core, Ps now) = 0;
    /// The controller accepted a packet and charged it to this pid. space: see request().
    virtual void packet_accepted(Pid, Dir, unsigned bytes, std::uint64_t space) = 0;
  };

  /// A core with more waiting writes than this must stop.
  static constexpr std::size_t kWriteBuffer = 16;

  MemoryPort(const MachineDescription &, Client *);

  RegisterFile &registers() { return memory_.controller().registers(); }
  const Memory &memory() const { return memory_; }
  void clear_stats() { memory_.clear_stats(); }

  /// Reads or writes a line at this time, which must not lie before now(). space: the address space
  /// of the program that caused it; kNoSpace: unknown, or the kernel.
  void request(unsigned core, Line, Dir, Ps at, std::uint64_t space);
  bool writes_are_full(unsigned core) const { return waiting_[core].writes.size() > kWriteBuffer; }

  /// Time of the next event; kNever: there is none.
  Ps next_event() const;
  /// Simulates up to and including this time.
  void advance(Ps to);
  Ps now() const { return memory_.now(); }

  /// Latency of one read when memory is idle and the row must be opened.
  static Ps idle_latency(const Timing &);

 private:
  /// A line, and the address space that it is for.
  struct Wanted {
    Line line;
    std::uint64_t space;
  };
  struct Request {
    Ps at;
    std::uint64_t seq;
    Wanted wanted;
    std::uint32_t core;
    Dir dir;
    bool operator>(const Request &o) const { return at != o.at ? at > o.at : seq > o.seq; }
  };
  /// Requests that the controller refused, oldest first. Each core has its own queues, so that a
  /// core of low priority does not delay another.
  struct Waiting {
    std::deque<Wanted> reads, writes;
    std::deque<Wanted> &lines(Dir dir) { return dir == Dir::read ? reads : writes; }
  };

  void completed(const Completion &) override;
  void room(Dir, Ps now) override;
  bool submit(unsigned core, const Wanted &, Dir, Ps now);

  Memory memory_;
  BankHash hash_;
  Client *client_;
  std::vector<Waiting> waiting_;
  std::priority_queue<Request, std::vector<Request>, std::greater<Request>> later_;
  std::uint64_t seq_ = 0;
  unsigned last_[2] = {0, 0};  // the core that was served last, by direction
};

}  // namespace drfq::hardware

#endif
