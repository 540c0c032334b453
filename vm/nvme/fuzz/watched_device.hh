// SPDX-License-Identifier: GPL-2.0-only
// The controller on a small machine, and a model of what it must do with a driver that does
// anything. What differs from the model throws Violation.
#ifndef DRFQ_NVME_FUZZ_WATCHED_DEVICE_HH
#define DRFQ_NVME_FUZZ_WATCHED_DEVICE_HH

#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "nvme/controller.hh"
#include "transfer_clock.hh"

namespace drfq::nvme {

/// The device broke a rule.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class WatchedDevice final : private Controller::Port {
 public:
  static constexpr unsigned kQueues = 2;
  static constexpr std::size_t kMemoryBytes = 64 << 10;
  /// More than the largest transfer.
  static constexpr std::uint64_t kDiskBytes = 160 << 10;

  struct SubmissionQueue {
    std::uint64_t base = 0;
    std::uint32_t entries = 0, head = 0, tail = 0;  ///< entries 0: there is no such queue
    unsigned cq = 0;
    bool broken = false;  ///< its memory could not be read
  };
  struct CompletionQueue {
    std::uint64_t base = 0;
    std::uint32_t entries = 0, head = 0, tail = 0;
    bool phase = true, interrupts = false;
    unsigned vector = 0;
  };

  WatchedDevice();

  /// Simulated time starts, which it does once.
  void appear() {
    if (!std::exchange(appeared_, true)) device_.appear();
  }
  /// The driver stores a value of 1, 2, 4 or 8 bytes.
  void store(std::uint64_t offset, unsigned bytes, std::uint64_t value);
  std::uint32_t load(std::uint64_t offset) const;
  /// The driver writes to the machine's memory. What lies outside is left out.
  void poke(std::uint64_t address, const void *from, std::size_t bytes);

  /// Lets time pass.
  void pass(Ps);
  /// Lets time pass and reads all completions until nothing happens any more. Then all commands
  /// must have ended.
  void settle();
  /// Checks what must hold at the end.
  void check_end();
  /// A transfer of before the last reset ends, if there was one.
  void finish_cancelled();

  const SubmissionQueue &sq(unsigned queue) const { return sqs_[queue]; }
  const CompletionQueue &cq(unsigned queue) const { return cqs_[queue]; }
  bool is_ready() const { return device_.is_ready(); }
  /// What the device has done so far: commands and lines.
  std::uint64_t work() const { return 16 * fetches_ + clock_.lines(); }

 private:
  struct Command {
    Sqe sqe;
    unsigned queue = 0;
    std::uint64_t bytes = 0;  ///< that its transfer moves
    bool executed = false;
    bool waiting = false;          ///< for room in its completion queue
    bool aborted = false;          ///< its submission queue was deleted
    std::uint64_t moved = 0;       ///< bytes, when it was executed
    std::optional<bool> succeeds;  ///< if the model knows
  };
  struct Move {
    std::uint64_t at = 0, bytes = 0;  ///< on the disk
    bool to_guest = false;
  };
  struct Write {
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    Cqe head;
  };

  bool read(std::uint64_t address, void *to, std::size_t bytes) override;
  bool write(std::uint64_t address, const void *from, std::size_t bytes) override;
  void start(std::uint64_t id, Dir, const std::vector<hardware::Segment> &,
             unsigned vector) override;
  void cancel() override;

  std::optional<std::uint64_t> place_on_disk(const void *pointer, std::size_t bytes);
  void expect_doorbell(std::uint64_t offset, unsigned bytes, std::uint64_t value);
  void expect_enabled();
  void fetch(std::uint64_t address, bool exists);
  void end_fetch();
  void check_transfer(const Command &, Dir) const;
  void check_registers() const;

  void finish(std::uint64_t id);
  void check_aborted(const Controller::Finished &);
  void check_moves(Command *);
  void check_completion(const Command &, const Controller::Finished &, std::uint32_t sq_head);
  void check_record(const Command &, const Controller::Record &, Status) const;
  std::uint64_t moved_bytes() const;

  // watched_queues.cc
  std::optional<bool> expect_admin(const Sqe &);
  bool expect_create_cq(const Sqe &);
  bool expect_create_sq(const Sqe &);
  bool expect_delete_sq(unsigned id);
  bool expect_delete_cq(unsigned id);

  Disk disk_;
  std::vector<std::uint8_t> registers_, memory_, shadow_;  // shadow_: what the disk must hold
  Controller device_;
  bool appeared_ = false;
  TransferClock clock_;
  std::array<SubmissionQueue, kQueues + 1> sqs_;
  std::array<CompletionQueue, kQueues + 1> cqs_;
  std::array<std::uint32_t, kQueues + 1> outstanding_{}, largest_{};
  std::map<std::uint64_t, Command> commands_;
  std::vector<std::uint64_t> cancelled_;
  std::optional<Sqe> fetched_;  // not started yet
  unsigned fetching_ = 0, async_events_ = 0;
  std::uint64_t fetches_ = 0, started_bytes_ = 0, next_id_ = 0;
  std::vector<Move> moves_;
  std::optional<Write> last_write_;
};

}  // namespace drfq::nvme

#endif
