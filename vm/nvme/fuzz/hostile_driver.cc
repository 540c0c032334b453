// SPDX-License-Identifier: GPL-2.0-only
#include "hostile_driver.hh"

#include <algorithm>
#include <iterator>

#include "tests/fuzz/input.hh"
#include "watched_device.hh"

namespace drfq::nvme {
namespace {

constexpr unsigned kSteps = 1000;
constexpr std::uint64_t kMostWork = 40'000;

constexpr std::uint64_t kRegisters[] = {reg::kCap, reg::kVs,   reg::kIntms, reg::kIntmc,
                                        reg::kCc,  reg::kCsts, reg::kNssr,  reg::kAqa,
                                        reg::kAsq, reg::kAcq};
constexpr std::uint8_t kAdminOpcodes[] = {0x00, 0x01, 0x02, 0x04, 0x05, 0x06,
                                          0x08, 0x09, 0x0a, 0x0c, 0x01, 0x05};
constexpr std::uint8_t kIoOpcodes[] = {0x00, 0x01, 0x02, 0x08, 0x01, 0x02, 0x01, 0x02};

/// The driver's queues, one page each, from page 1 on.
constexpr std::uint64_t kAdminSq = 0x1000, kAdminCq = 0x2000;
constexpr std::uint64_t kLastPage = WatchedDevice::kMemoryBytes - 0x1000;

class HostileDriver {
 public:
  HostileDriver(const unsigned char *data, std::size_t size) : in_(data, size) {}

  void run() {
    const unsigned begin = number(1);
    if ((begin & 1) == 0) set_up(begin);
    for (unsigned step = 0; !in_.empty() && step < kSteps && !is_exhausted(); step++) act();
    if (!is_exhausted()) device_.settle();
    device_.check_end();
    store32(reg::kCc, 0);
    device_.settle();
    device_.finish_cancelled();
    device_.check_end();
  }

 private:
  unsigned number(unsigned bytes) { return static_cast<unsigned>(in_.take(bytes)); }
  bool is_exhausted() const { return device_.work() > kMostWork; }
  void store32(std::uint64_t offset, std::uint64_t value) { device_.store(offset, 4, value); }

  /// A page of memory or beyond, a place in one, a place near or outside memory, or any.
  std::uint64_t address() {
    const unsigned b = number(1);
    if (b < 0x40) return std::uint64_t{b & 31} << 12;
    if (b < 0xa0) return std::uint64_t{b & 15} << 12 | in_.take(1) << 4;
    if (b < 0xc0) return in_.take(2);
    if (b < 0xe0) return WatchedDevice::kMemoryBytes - in_.take(2);
    return in_.any();
  }

  void enable(unsigned entries, std::uint64_t sq, std::uint64_t cq) {
    device_.appear();
    store32(reg::kAqa, (entries - 1) << 16 | (entries - 1));
    device_.store(reg::kAsq, 8, sq);
    device_.store(reg::kAcq, 8, cq);
    store32(reg::kCc, 6u << 16 | 4u << 20 | 1);
  }

  /// A good driver's beginning: two pairs of queues, with one or two queues for completions. A
  /// queue may reach beyond memory.
  void set_up(unsigned how) {
    enable(8, kAdminSq, kAdminCq);
    for (unsigned q = 1; q <= WatchedDevice::kQueues; q++) {
      const std::uint32_t size = (1 + (how >> 4)) << 16 | q;
      const unsigned cq = (how & 2) != 0 ? 1 : q;
      submit(0, command(Admin::create_cq, size, q << 16 | 3, kAdminCq + q * 0x2000));
      const bool reaches_out = (how & 4) != 0 && q == 2;
      submit(0, command(Admin::create_sq, reaches_out ? 127u << 16 | q : size, cq << 16 | 1,
                        reaches_out ? kLastPage : kAdminSq + q * 0x2000));
    }
    device_.pass(20 * kPsPerUs);
    consume(0, true);
  }

  /// Deletes a pair of queues, with or without commands in flight.
  void take_down(unsigned queue) {
    submit(0, command(Admin::delete_sq, queue, 0, 0));
    submit(0, command(Admin::delete_cq, queue, 0, 0));
  }

  static Sqe command(Admin opcode, std::uint32_t cdw10, std::uint32_t cdw11, std::uint64_t prp1) {
    Sqe c;
    c.opcode = static_cast<std::uint8_t>(opcode);
    c.cdw10 = cdw10;
    c.cdw11 = cdw11;
    c.prp1 = prp1;
    return c;
  }

  /// Puts a command at the tail of a queue and rings.
  void submit(unsigned queue, const Sqe &c) {
    const WatchedDevice::SubmissionQueue &q = device_.sq(queue);
    if (q.entries == 0) return;
    device_.poke(q.base + q.tail * sizeof c, &c, sizeof c);
    store32(reg::kEnd + 8 * queue, (q.tail + 1) % q.entries);
  }

  /// Reads one completion of a queue, or all.
  void consume(unsigned queue, bool all) {
    const WatchedDevice::CompletionQueue &q = device_.cq(queue);
    if (q.entries == 0 || q.head == q.tail) return;
    store32(reg::kEnd + 8 * queue + 4, all ? q.tail : (q.head + 1) % q.entries);
  }

  void admin(unsigned what) {
    Sqe c;
    const unsigned opcode = number(1);
    c.opcode = opcode < 0xf0 ? kAdminOpcodes[opcode % std::size(kAdminOpcodes)]
                             : static_cast<std::uint8_t>(number(1));
    c.cid = static_cast<std::uint16_t>(number(1));
    const unsigned id = number(1);
    c.nsid = id >> 4 & 3;
    const bool is_feature = static_cast<Admin>(c.opcode) == Admin::set_features ||
                            static_cast<Admin>(c.opcode) == Admin::get_features;
    c.cdw10 = (id & 15) < 15 ? id & (is_feature ? 15 : 3) : in_.any32();
    c.cdw10 |= ((id & 0x40) != 0 ? in_.any32() : number(1) & 15) << 16;
    const unsigned how = number(1);
    c.cdw11 = how >= 0xf0 ? in_.any32() : (how & 3) << 16 | (how & 8 ? 1 : 3);
    c.prp1 = address();
    if ((what & 0x20) != 0) c.prp2 = address();
    submit(0, c);
  }

  void io(unsigned what) {
    Sqe c;
    const unsigned opcode = number(1);
    c.opcode = opcode < 0xf0 ? kIoOpcodes[opcode % std::size(kIoOpcodes)]
                             : static_cast<std::uint8_t>(number(1));
    c.flags = opcode == 0xff ? static_cast<std::uint8_t>(number(1)) : std::uint8_t{0};
    c.cid = static_cast<std::uint16_t>(number(1));
    c.nsid = opcode == 0xfe ? in_.any32() : 1;
    c.cdw10 = (what & 0x20) != 0 ? in_.any32() : number(1);
    if (opcode == 0xfd) c.cdw11 = in_.any32();
    c.cdw12 = (what & 0x40) != 0 ? number(2) : number(1) & 31;
    c.prp1 = address();
    c.prp2 = address();
    const unsigned queue = 1 + (what >> 7);
    if (opcode != 0xfc) return submit(queue, c);
    // Without a doorbell, where another command may already be in use.
    device_.poke(device_.sq(queue).base + number(1) * sizeof c, &c, sizeof c);
  }

  void doorbell(unsigned what) {
    const unsigned queue = what >> 5 & 3;
    const std::uint64_t offset = reg::kEnd + 8 * (queue < 3 ? queue : number(2));
    store32(offset + ((what & 0x10) != 0 ? 4 : 0), in_.any32());
  }

  /// Writes a list of pages.
  void list() {
    const std::uint64_t at = address();
    const unsigned entries = number(1) % 40;
    for (unsigned i = 0; i < entries; i++) {
      const std::uint64_t page = address();
      device_.poke(at + 8 * i, &page, sizeof page);
    }
  }

  void poke(unsigned what) {
    const std::uint64_t at = address(), value = in_.take(8);
    device_.poke(at, &value, 1u << (what >> 4 & 3));
  }

  void store(unsigned what) {
    const unsigned bytes = 1u << (what >> 4 & 3);
    const std::uint64_t offset = (what & 0x40) != 0
                                     ? in_.take(2) % (Controller::kRegisterBytes + 64)
                                     : kRegisters[in_.take(1) % std::size(kRegisters)];
    device_.store(offset + ((what & 0x80) != 0 ? number(1) % 8 : 0), bytes, in_.any());
  }

  /// Ends the device's work in some way, or begins it.
  void configure(unsigned what) {
    switch (what >> 4 & 7) {
      case 0:
        store32(reg::kCc, 0);
        break;
      case 1:
        store32(reg::kCc, 1u << 14 | 1);
        break;
      case 2:
        store32(reg::kCc, in_.any32());
        break;
      case 3:
        device_.finish_cancelled();
        break;
      case 4:
        set_up(number(1));
        break;
      case 5:
        take_down(1 + (what >> 7));
        break;
      default:
        enable(2 + number(1) % 16, address(), address());
    }
  }

  void act() {
    const unsigned what = number(1);
    switch (what & 15) {
      case 0:
        return store(what);
      case 1:
      case 2:
        return doorbell(what);
      case 3:
      case 4:
        return admin(what);
      case 5:
      case 6:
      case 7:
      case 8:
        return io(what);
      case 9:
        return poke(what);
      case 10:
        return list();
      case 11:
        return consume(what >> 4 & 3 ? what >> 4 & 1 ? 1 : 2 : 0, (what & 0x40) != 0);
      case 12:
        return configure(what);
      case 13:
        return device_.pass(in_.take(1) * kPsPerUs / 10);
      case 14:
        return device_.pass(in_.take(1) * kPsPerUs);
      default:
        return device_.pass(1000 * kPsPerUs);
    }
  }

  Input in_;
  WatchedDevice device_;
};

}  // namespace

void drive(const unsigned char *data, std::size_t size) { HostileDriver(data, size).run(); }

}  // namespace drfq::nvme
