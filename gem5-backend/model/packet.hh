// SPDX-License-Identifier: GPL-2.0-only
// What passes between a memory and its host: packets, completions, and who is told of them.
#ifndef DRFQ_PACKET_HH
#define DRFQ_PACKET_HH

#include "core/controller.hh"
#include "dram.hh"

namespace drfq {

/// How agents reach the controller.
enum class Ports : std::uint8_t {
  multi,   ///< a port each: a refused packet holds up its own agent only
  single,  ///< behind a crossbar: a refused packet holds up all agents
};

struct Packet {
  std::uint64_t address = 0;
  std::uint32_t bytes = 64;  ///< 1..Memory::max_packet_bytes()
  Dir dir = Dir::read;
  Label label;
  std::uint32_t port = 0;    ///< the agent, for Ports::single and for the listener
  std::uint64_t cookie = 0;  ///< returned with the completion
};

struct Completion {
  std::uint64_t cookie = 0;
  std::uint32_t port = 0;
  Dir dir = Dir::read;
  Ps accepted = 0;
  Ps at = 0;  ///< reads: when the data is back; writes: when they are acknowledged
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void completed(const Completion &) = 0;
  /// Refused packets of this direction may be admitted now.
  virtual void room(Dir, Ps now) = 0;
};

/// Sees every decision; for logs, tests and replay.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void arrived(Ps, const Packet &, Admission) {}
  virtual void issued(Ps, const Entry &, const Choice &, const Dram::Burst &) {}
  /// A register was written. The host reports this, because the host writes the registers.
  virtual void wrote(Ps, std::uint64_t /*offset*/, std::uint64_t /*value*/) {}
};

}  // namespace drfq

#endif
