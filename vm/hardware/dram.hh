// SPDX-License-Identifier: GPL-2.0-only
// The way to memory: requests that wait for their time or for room in the
// controller, in front of the controller and DRAM of gem5-backend.
#ifndef DRFQ_MACHINE_DRAM_HH
#define DRFQ_MACHINE_DRAM_HH

#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "bank_hash.hh"
#include "cache.hh"
#include "description.hh"

namespace drfq::machine {

class Channel : private Listener {
 public:
  /// Who wants to know.
  class Client {
   public:
    virtual ~Client() = default;
    /// The line of a read is here.
    virtual void arrived(Line, Ps now) = 0;
    /// A core has fewer writes waiting than before.
    virtual void drained(unsigned core, Ps now) = 0;
    /// A packet was accepted on this account.
    virtual void charged(Pid, Dir, unsigned bytes) = 0;
  };

  /// More waiting writes than this and their core must stop.
  static constexpr std::size_t kWriteBuffer = 16;

  Channel(const Description &, Client *);

  RegisterFile &registers() { return memory_.controller().registers(); }
  const Memory &memory() const { return memory_; }
  void clear_stats() { memory_.clear_stats(); }

  /// A line is to be read or written at time at, not before the present.
  void request(unsigned core, Line, Dir, Ps at);
  bool writes_are_full(unsigned core) const { return waiting_[core].writes.size() > kWriteBuffer; }

  /// When something happens next; kNever: nothing will.
  Ps next_event() const;
  /// Runs everything up to and including this time.
  void advance(Ps to);
  Ps now() const { return memory_.now(); }

  /// What one read of an idle memory takes when its row must be opened.
  static Ps idle_latency(const Timing &);

 private:
  struct Request {
    Ps at;
    std::uint64_t seq;
    Line line;
    std::uint32_t core;
    Dir dir;
    bool operator>(const Request &o) const { return at != o.at ? at > o.at : seq > o.seq; }
  };
  /// Refused by the controller; each core's go in order, so that a core of low
  /// priority does not hold up another.
  struct Waiting {
    std::deque<Line> reads, writes;
  };

  void completed(const Completion &) override;
  void room(Dir, Ps now) override;
  bool offer(unsigned core, Line, Dir, Ps now);

  Memory memory_;
  BankHash hash_;
  Client *client_;
  std::vector<Waiting> waiting_;
  std::priority_queue<Request, std::vector<Request>, std::greater<Request>> later_;
  std::uint64_t seq_ = 0;
  unsigned last_[2] = {0, 0};  // core that got room last, by direction
};

}  // namespace drfq::machine

#endif
