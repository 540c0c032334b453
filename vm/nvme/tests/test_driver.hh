// SPDX-License-Identifier: GPL-2.0-only
// A driver for tests, which may do what no good driver does. Transfers end when the test says so.
#ifndef DRFQ_NVME_TEST_DRIVER_HH
#define DRFQ_NVME_TEST_DRIVER_HH

#include <cstring>
#include <deque>
#include <vector>

#include "nvme/controller.hh"

namespace drfq::nvme {

/// The guest's memory of 1 MiB, and the transfers that the controller started.
class TestPort final : public Controller::Port {
 public:
  static constexpr std::size_t kBytes = 1 << 20;
  struct Started {
    std::uint64_t id;
    Dir dir;
    std::vector<hardware::Segment> segments;
    unsigned vector;
  };

  bool read(std::uint64_t address, void *to, std::size_t bytes) override {
    reads++;
    if (address > kBytes || bytes > kBytes - address) return false;
    std::memcpy(to, &memory[address], bytes);
    return true;
  }
  bool write(std::uint64_t address, const void *from, std::size_t bytes) override {
    if (address > kBytes || bytes > kBytes - address) return false;
    std::memcpy(&memory[address], from, bytes);
    return true;
  }
  void start(std::uint64_t id, Dir dir, const std::vector<hardware::Segment> &segments,
             unsigned vector) override {
    started.push_back({id, dir, segments, vector});
  }
  void cancel() override {
    cancelled++;
    started.clear();
  }

  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kBytes);
  std::deque<Started> started;
  unsigned cancelled = 0;
  std::uint64_t reads = 0;
};

class TestDriver {
 public:
  // Where the driver's structures lie in memory. Queues have kEntries entries.
  static constexpr std::uint64_t kAdminSq = 0x1000, kAdminCq = 0x2000, kIoSq = 0x3000,
                                 kIoCq = 0x4000, kList = 0x8000, kData = 0x10000;
  static constexpr std::uint32_t kEntries = 8;
  static constexpr unsigned kQueues = 2;

  /// what: what a Disk is made of.
  template <typename What = std::uint64_t>
  explicit TestDriver(const What &what = 1 << 20)
      : disk(what),
        registers(Controller::kRegisterBytes),
        device(disk, kQueues, registers.data()) {}

  template <typename T>
  void store(std::uint64_t offset, T value) {
    std::memcpy(&registers[offset], &value, sizeof value);
    device.stored(offset, sizeof value, value, port);
  }
  std::uint32_t load(std::uint64_t offset) const {
    std::uint32_t value;
    std::memcpy(&value, &registers[offset], sizeof value);
    return value;
  }
  void enable() {
    device.appear();
    store<std::uint32_t>(reg::kAqa, (kEntries - 1) << 16 | (kEntries - 1));
    store<std::uint64_t>(reg::kAsq, kAdminSq);
    store<std::uint64_t>(reg::kAcq, kAdminCq);
    store<std::uint32_t>(reg::kCc, 6u << 16 | 4u << 20 | 1);
    tails[0] = heads[0] = 0;
  }
  /// Puts a command into a queue and rings.
  void submit(unsigned queue, const Sqe &c) {
    std::memcpy(&port.memory[(queue == 0 ? kAdminSq : kIoSq) + 64 * tails[queue]], &c, sizeof c);
    tails[queue] = (tails[queue] + 1) % kEntries;
    store<std::uint32_t>(reg::kEnd + 8 * queue, tails[queue]);
  }
  /// Ends the oldest transfer.
  Controller::Finished finish() {
    const TestPort::Started s = port.started.front();
    port.started.pop_front();
    return device.finished(s.id, port);
  }
  /// The next completion of a queue, which must be there.
  Cqe completion(unsigned queue) {
    Cqe e;
    const std::uint64_t base = queue == 0 ? kAdminCq : kIoCq;
    std::memcpy(&e, &port.memory[base + 16 * heads[queue]], sizeof e);
    heads[queue] = (heads[queue] + 1) % kEntries;
    store<std::uint32_t>(reg::kEnd + 8 * queue + 4, heads[queue]);
    return e;
  }
  /// Runs one command to its end. Returns its status.
  Status run(unsigned queue, const Sqe &c) {
    submit(queue, c);
    finish();
    return static_cast<Status>((completion(queue).status >> 1) & 0x7ff);
  }
  static Sqe admin(Admin opcode, std::uint32_t cdw10 = 0, std::uint32_t cdw11 = 0,
                   std::uint64_t prp1 = 0) {
    Sqe c;
    c.opcode = static_cast<std::uint8_t>(opcode);
    c.cdw10 = cdw10;
    c.cdw11 = cdw11;
    c.prp1 = prp1;
    return c;
  }
  static Sqe io(Io opcode, std::uint64_t lba, unsigned blocks, std::uint64_t prp1,
                std::uint64_t prp2 = 0) {
    Sqe c;
    c.opcode = static_cast<std::uint8_t>(opcode);
    c.nsid = 1;
    c.cdw10 = static_cast<std::uint32_t>(lba);
    c.cdw11 = static_cast<std::uint32_t>(lba >> 32);
    c.cdw12 = blocks - 1;
    c.prp1 = prp1;
    c.prp2 = prp2;
    return c;
  }
  /// Creates I/O queue 1 with interrupt vector 1. Returns whether both commands succeeded.
  bool create_io_queue() {
    const std::uint32_t size = (kEntries - 1) << 16 | 1;
    tails[1] = heads[1] = 0;
    return run(0, admin(Admin::create_cq, size, 1u << 16 | 3, kIoCq)) == Status::ok &&
           run(0, admin(Admin::create_sq, size, 1u << 16 | 1, kIoSq)) == Status::ok;
  }

  Disk disk;
  std::vector<std::uint8_t> registers;
  TestPort port;
  Controller device;
  std::uint32_t tails[kQueues + 1] = {}, heads[kQueues + 1] = {};
};

}  // namespace drfq::nvme

#endif
