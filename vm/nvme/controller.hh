// SPDX-License-Identifier: GPL-2.0-only
// An NVMe controller: registers, queues and commands. It knows neither time nor QEMU. Its port
// starts each command's transfer and later calls finished(), which moves the data and posts the
// completion. All calls must come one at a time.
//
// The guest is not trusted: a bad value gives an error status or is ignored. The memory that a
// guest can make the controller use is bounded.
#ifndef DRFQ_NVME_CONTROLLER_HH
#define DRFQ_NVME_CONTROLLER_HH

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "disk.hh"
#include "guest_memory.hh"
#include "hardware/transfer.hh"
#include "protocol.hh"

namespace drfq::nvme {

class Controller {
 public:
  static constexpr std::uint64_t kRegisterBytes = 0x2000;

  class Port : public GuestMemory {
   public:
    /// Starts the transfer of a command whose completion raises this interrupt vector.
    virtual void start(std::uint64_t id, Dir, const std::vector<hardware::Segment> &,
                       unsigned vector) = 0;
    /// Forgets all transfers.
    virtual void cancel() = 0;
  };

  /// queues: pairs of I/O queues; there is an interrupt vector for each and one for admin commands.
  /// registers: kRegisterBytes of memory that the guest reads. Until appear() it reads as absent.
  Controller(Disk &, unsigned queues, std::uint8_t *registers);

  /// Makes the device answer to its driver.
  void appear();

  /// The guest stored a value at this offset of the registers.
  void stored(std::uint64_t offset, unsigned bytes, std::uint64_t value, Port &);

  /// What a command did, for logs.
  struct Record {
    std::uint64_t lba = 0, bytes = 0;
    std::uint16_t queue = 0, cid = 0;
    std::uint8_t opcode = 0;
    Status status = Status::ok;
  };
  struct Finished {
    std::optional<unsigned> vector;  ///< interrupt to raise
    std::optional<Record> record;    ///< of an I/O command that completed
  };
  /// The transfer with this id has ended. An id of before a reset does nothing.
  Finished finished(std::uint64_t id, Port &);

  bool is_ready() const { return (csts_ & kReady) != 0; }
  /// Commands that the controller has fetched and not completed, and aborted ones in transfer.
  std::size_t commands() const { return commands_.size(); }

 private:
  struct SubmissionQueue {
    std::uint64_t base = 0;
    std::uint32_t size = 0, head = 0, tail = 0;  ///< size 0: there is no such queue
    std::uint16_t cq = 0;
    bool broken = false;  ///< its memory cannot be read
  };
  struct CompletionQueue {
    std::uint64_t base = 0;
    std::uint32_t size = 0, head = 0, tail = 0;
    bool phase = true, interrupts = false;
    std::uint16_t vector = 0;
    std::deque<std::uint64_t> waiting;  ///< commands that find no room
    bool is_full() const { return (tail + 1) % size == head; }
  };
  struct Command {
    Sqe sqe;
    std::uint16_t queue = 0;
    Status status = Status::ok;
    std::uint32_t result = 0;
    bool executed = false;
    bool aborted = false;  ///< its queue was deleted; its transfer has not ended yet
    std::vector<hardware::Segment> data;
  };

  template <typename T>
  T get(std::uint64_t offset) const;
  template <typename T>
  void set(std::uint64_t offset, T value);
  void publish();
  void configure(std::uint32_t cc, Port &);
  void enable();
  void reset(Port &);

  void ring(std::uint64_t offset, std::uint64_t value, Port &);
  void retry(CompletionQueue *, Port &);
  void fetch(std::uint16_t queue, Port &);
  void begin(std::uint16_t queue, const Sqe &, Port &);
  Status check_io(const Sqe &, Command *, Port &);
  Status execute_io(const Command &, Port &);
  Status copy(const Command &, Port &);
  void post(const Command &, CompletionQueue *, Port &);

  // admin.cc
  Status execute_admin(const Sqe &, std::uint32_t *result, Port &);
  Status create_cq(const Sqe &);
  Status create_sq(const Sqe &);
  Status delete_sq(std::uint16_t id, Port &);
  Status delete_cq(std::uint16_t id);
  Status identify(const Sqe &, Port &);
  Status get_log_page(const Sqe &, Port &);
  Status features(const Sqe &, std::uint32_t *result) const;
  bool is_io_queue(std::uint32_t id) const { return id >= 1 && id <= queues_; }

  Disk &disk_;
  const unsigned queues_;
  std::uint8_t *const registers_;
  std::uint64_t cap_ = 0;
  std::uint32_t vs_ = 0, cc_ = 0, csts_ = ~0u;
  std::vector<SubmissionQueue> sqs_;  // 0: admin
  std::vector<CompletionQueue> cqs_;
  // Commands of each submission queue that are not over. Those of a deleted queue count for the
  // next one with its number.
  std::vector<std::uint32_t> fetched_;
  std::unordered_map<std::uint64_t, Command> commands_;
  std::uint64_t next_id_ = 0;
  unsigned async_events_ = 0;
};

}  // namespace drfq::nvme

#endif
