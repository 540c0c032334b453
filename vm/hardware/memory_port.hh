// SPDX-License-Identifier: GPL-2.0-only
// The ways from the shared cache and from a device to memory: requests that wait for their time or
// for room in the controller. The controller and the DRAM behind it are gem5-backend's.
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
    /// A read of the device has arrived, or the controller accepted a write of it.
    /// cookie: see request_of_device().
    virtual void device_done(std::uint64_t cookie, Ps now) = 0;
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
  /// The same for a device, which may move a part of a line. pid: pays for the packet; 0: unknown.
  void request_of_device(std::uint64_t address, std::uint32_t bytes, Dir, Ps at, Pid pid,
                         std::uint64_t cookie);
  bool writes_are_full(unsigned core) const { return waiting_[core].writes.size() > kWriteBuffer; }

  /// Time of the next event; kNever: there is none.
  Ps next_event() const;
  /// Simulates up to and including this time.
  void advance(Ps to);
  Ps now() const { return memory_.now(); }

  /// Latency of one read when memory is idle and the row must be opened.
  static Ps idle_latency(const Timing &);

 private:
  /// A packet, and the address space that it is for.
  struct Wanted {
    std::uint64_t address;
    std::uint64_t cookie;
    std::uint64_t space;
    std::uint32_t bytes;
    Label label;
  };
  struct Request {
    Ps at;
    std::uint64_t seq;
    Wanted wanted;
    std::uint32_t port;
    Dir dir;
    bool operator>(const Request &o) const { return at != o.at ? at > o.at : seq > o.seq; }
  };
  /// Requests that the controller refused, oldest first. Each port has its own queues, so that a
  /// core of low priority does not delay another.
  struct Waiting {
    std::deque<Wanted> reads, writes;
    std::deque<Wanted> &packets(Dir dir) { return dir == Dir::read ? reads : writes; }
  };

  void completed(const Completion &) override;
  void room(Dir, Ps now) override;
  bool submit(unsigned port, const Wanted &, Dir, Ps now);

  Memory memory_;
  BankHash hash_;
  Client *client_;
  unsigned device_;               // the port after those of the cores
  std::vector<Waiting> waiting_;  // by port
  std::priority_queue<Request, std::vector<Request>, std::greater<Request>> later_;
  std::uint64_t seq_ = 0;
  unsigned last_[2] = {0, 0};  // the port that was served last, by direction
};

}  // namespace drfq::hardware

#endif
