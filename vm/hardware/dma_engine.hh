// SPDX-License-Identifier: GPL-2.0-only
// When a storage device moves which line. Commands wait for the medium, then their lines follow
// one another at the device's rate, as long as fewer than a limit are under way. A line that it
// loads is under way until it arrives. Stores are posted, as on PCIe: one is under way until the
// memory's controller accepts it. A memory that refuses the device or serves it late therefore
// slows it down. The completion is due a fixed time after the last line, so the emulator learns of
// each interrupt before any core gets there.
//
// Time comes from outside. The same calls give the same results.
#ifndef DRFQ_HARDWARE_DMA_ENGINE_HH
#define DRFQ_HARDWARE_DMA_ENGINE_HH

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "machine_description.hh"
#include "transfer.hh"

namespace drfq::hardware {

class DmaEngine {
 public:
  /// How far the cores' clocks may lead the memory's: a core starts a chunk of a quantum at most a
  /// quantum ahead.
  static Ps lookahead(const MachineDescription &d) { return 2 * d.quantum; }

  explicit DmaEngine(const MachineDescription &d)
      : config_(d.storage),
        lookahead_(lookahead(d)),
        before_(config_.latency > lookahead_ ? config_.latency - lookahead_ : 0) {}

  /// The device starts a command at this time. pid: pays for it.
  void start(Transfer, Pid pid, Ps now);
  /// Forgets all commands. Lines that are under way still arrive, at no command.
  void cancel();

  /// Whether any command is unfinished.
  bool busy() const { return !active_.empty(); }
  /// When the next line leaves; kNever: never, or not before a line arrives.
  Ps next_event() const;

  /// A line, or a part of one.
  struct Piece {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    Dir dir = Dir::write;
    Pid pid = 0;
    std::uint64_t command = 0;  ///< argument of done()
  };
  /// The line that leaves at next_event(), which must not be kNever.
  Piece take();
  /// A line arrived from memory, or memory's controller or the shared cache took it.
  void done(std::uint64_t command, Ps now);

  bool has_finished() const { return !finished_.empty(); }
  std::vector<FinishedTransfer> take_finished() { return std::exchange(finished_, {}); }

  const DeviceTraffic &traffic() const { return traffic_; }
  /// Counts bytes that did not reach memory.
  void count_cached(std::uint32_t bytes) { traffic_.cached_bytes += bytes; }

 private:
  struct Command {
    Transfer transfer;
    Pid pid = 0;
    Ps started = 0;
    Ps ready = 0;              ///< the medium has the data
    std::size_t segment = 0;   ///< where the next line begins
    std::uint64_t offset = 0;  ///< within the segment
    std::uint64_t pieces = 0;  ///< under way
    bool sent = false;         ///< all lines have left
  };

  void finish(std::map<std::uint64_t, Command>::iterator, Ps at);

  const StorageConfig config_;
  const Ps lookahead_, before_;
  std::map<std::uint64_t, Command> active_;  // by a number of their own
  std::deque<std::uint64_t> sending_;        // commands whose lines have not all left, in order
  std::vector<FinishedTransfer> finished_;
  DeviceTraffic traffic_;
  std::uint64_t next_ = 0;
  Ps free_ = 0;  // when the device's link is free
  unsigned under_way_ = 0;
};

}  // namespace drfq::hardware

#endif
