// SPDX-License-Identifier: GPL-2.0-only
#include "watched_device.hh"

#include <algorithm>
#include <cstring>
#include <utility>

#include "expectations.hh"

namespace drfq::nvme {

WatchedDevice::WatchedDevice()
    : disk_(kDiskBytes),
      registers_(Controller::kRegisterBytes),
      memory_(kMemoryBytes),
      shadow_(kDiskBytes),
      device_(disk_, kQueues, registers_.data()) {}

// ---- The driver.

void WatchedDevice::store(std::uint64_t offset, unsigned bytes, std::uint64_t value) {
  const bool was_ready = device_.is_ready();
  if (bytes < 8) value &= (std::uint64_t{1} << 8 * bytes) - 1;
  if (offset <= registers_.size() && bytes <= registers_.size() - offset)
    std::memcpy(&registers_[offset], &value, bytes);
  fetching_ = kNoQueue;
  if (was_ready) expect_doorbell(offset, bytes, value);
  device_.stored(offset, bytes, value, *this);
  end_fetch();
  if (!was_ready && device_.is_ready()) expect_enabled();
  check_registers();
}

std::uint32_t WatchedDevice::load(std::uint64_t offset) const {
  std::uint32_t value = 0;
  std::memcpy(&value, &registers_[offset], sizeof value);
  return value;
}

void WatchedDevice::poke(std::uint64_t address, const void *from, std::size_t bytes) {
  if (address <= kMemoryBytes && bytes <= kMemoryBytes - address)
    std::memcpy(&memory_[address], from, bytes);
}

void WatchedDevice::pass(Ps time) {
  const Ps until = clock_.now() + time;
  while (const std::optional<std::uint64_t> id = clock_.next(until)) finish(*id);
}

void WatchedDevice::settle() {
  for (bool progress = true; progress;) {
    progress = false;
    while (const std::optional<std::uint64_t> id = clock_.next(kNever)) {
      finish(*id);
      progress = true;
    }
    for (unsigned q = 0; q <= kQueues; q++) {
      if (cqs_[q].entries == 0 || cqs_[q].head == cqs_[q].tail) continue;
      store(reg::kEnd + 8 * q + 4, 4, cqs_[q].tail);
      progress = true;
    }
  }
  expect(!clock_.busy(), "the DMA engine stops before a transfer has ended");
  expect(commands_.empty(), "a command never ends");
  for (const SubmissionQueue &q : sqs_)
    expect(q.broken || q.head == q.tail, "a command is never fetched");
}

std::uint64_t WatchedDevice::moved_bytes() const {
  const hardware::DeviceTraffic &t = clock_.traffic();
  return t.to_memory_bytes + t.from_memory_bytes;
}

void WatchedDevice::check_end() {
  expect(moved_bytes() == started_bytes_, "transfers have other bytes");
  expect(std::equal(shadow_.begin(), shadow_.end(), disk_.at(0)), "the disk holds other data");
  expect(device_.commands() >= commands_.size(), "the device has lost commands");
}

void WatchedDevice::finish_cancelled() {
  if (cancelled_.empty()) return;
  const std::uint64_t id = cancelled_.back();
  cancelled_.pop_back();
  fetching_ = kNoQueue;
  moves_.clear();
  last_write_.reset();
  check_aborted(device_.finished(id, *this));
}

// ---- What a store makes the device do.

void WatchedDevice::expect_doorbell(std::uint64_t offset, unsigned bytes, std::uint64_t value) {
  if (offset < reg::kEnd || offset >= Controller::kRegisterBytes) return;
  const std::uint64_t queue = (offset - reg::kEnd) / 8;
  if (bytes != 4 || offset % 4 != 0 || queue > kQueues) return;
  if (offset % 8 != 0) {
    if (value < cqs_[queue].entries) cqs_[queue].head = static_cast<std::uint32_t>(value);
  } else if (value < sqs_[queue].entries) {
    sqs_[queue].tail = static_cast<std::uint32_t>(value);
    fetching_ = static_cast<unsigned>(queue);
  }
}

void WatchedDevice::expect_enabled() {
  constexpr std::uint64_t kPage = ~(kPageBytes - 1);
  std::uint64_t base[2];
  std::memcpy(base, &registers_[reg::kAsq], sizeof base);
  const std::uint32_t aqa = load(reg::kAqa);
  sqs_[0] = {};
  sqs_[0].base = base[0] & kPage;
  sqs_[0].entries = (aqa & 0xfff) + 1;
  cqs_[0] = {};
  cqs_[0].base = base[1] & kPage;
  cqs_[0].entries = (aqa >> 16 & 0xfff) + 1;
  cqs_[0].interrupts = true;
  largest_[0] = sqs_[0].entries;
  expect((load(reg::kCc) & 1) != 0, "the device is ready without having been enabled");
}

void WatchedDevice::check_registers() const {
  if (!appeared_) return;
  expect(load(reg::kVs) == kVersion, "the version changes");
  expect((load(reg::kCap) & 0xffff) == kMaxEntries - 1, "the capabilities change");
  expect((load(reg::kCsts) & kReady) == (device_.is_ready() ? kReady : 0),
         "the status is not what the driver reads");
}

void WatchedDevice::cancel() {
  for (const auto &[id, command] : commands_)
    if (cancelled_.size() < 8) cancelled_.push_back(id);
  commands_.clear();
  sqs_.fill({});
  cqs_.fill({});
  outstanding_.fill(0);
  largest_.fill(0);
  async_events_ = 0;
  clock_.cancel();
  // Of what is cancelled, the lines that have left count.
  expect(moved_bytes() <= started_bytes_, "cancelled transfers have more bytes");
  started_bytes_ = moved_bytes();
}

// ---- The machine's memory.

std::optional<std::uint64_t> WatchedDevice::place_on_disk(const void *pointer, std::size_t bytes) {
  const auto *p = static_cast<const std::uint8_t *>(pointer), *begin = disk_.at(0);
  if (p + bytes <= begin || p >= begin + kDiskBytes) return {};
  expect(p >= begin && p + bytes <= begin + kDiskBytes, "data lies partly beyond the disk");
  return static_cast<std::uint64_t>(p - begin);
}

bool WatchedDevice::read(std::uint64_t address, void *to, std::size_t bytes) {
  const bool exists = address <= kMemoryBytes && bytes <= kMemoryBytes - address;
  const std::optional<std::uint64_t> at = place_on_disk(to, bytes);
  if (!at.has_value() && bytes == sizeof(Sqe)) fetch(address, exists);
  if (!exists) return false;
  std::memcpy(to, &memory_[address], bytes);
  if (!at.has_value()) return true;
  std::memcpy(&shadow_[*at], &memory_[address], bytes);
  moves_.push_back({*at, bytes, false});
  return true;
}

bool WatchedDevice::write(std::uint64_t address, const void *from, std::size_t bytes) {
  const bool exists = address <= kMemoryBytes && bytes <= kMemoryBytes - address;
  const std::optional<std::uint64_t> at = place_on_disk(from, bytes);
  if (at.has_value()) {
    if (exists) moves_.push_back({*at, bytes, true});
  } else {
    last_write_ = Write{address, bytes, {}};
    std::memcpy(&last_write_->head, from, std::min(bytes, sizeof(Cqe)));
  }
  if (exists) std::memcpy(&memory_[address], from, bytes);
  return exists;
}

// ---- Commands that begin.

void WatchedDevice::fetch(std::uint64_t address, bool exists) {
  end_fetch();
  expect(fetching_ != kNoQueue, "a command is fetched without a reason");
  SubmissionQueue &q = sqs_[fetching_];
  expect(q.entries != 0 && !q.broken, "a command is fetched from a queue that does not exist");
  expect(q.head != q.tail, "a command is fetched that was not submitted");
  expect(address == q.base + q.head * sizeof(Sqe), "a command is fetched from elsewhere");
  fetches_++;
  if (!exists) {
    q.broken = true;
    return;
  }
  q.head = (q.head + 1) % q.entries;
  std::memcpy(&fetched_.emplace(), &memory_[address], sizeof(Sqe));
}

/// What was fetched last has not been started.
void WatchedDevice::end_fetch() {
  if (!fetched_.has_value()) return;
  expect(fetching_ == 0 && static_cast<Admin>(fetched_->opcode) == Admin::async_event &&
             ++async_events_ <= kMaxAsyncEvents,
         "a command that was fetched does not start");
  fetched_.reset();
}

void WatchedDevice::start(std::uint64_t id, Dir dir, const std::vector<hardware::Segment> &segments,
                          unsigned vector) {
  expect(vector <= kQueues, "there is no such interrupt");
  clock_.start(id, dir, segments);
  if (const auto known = commands_.find(id); known != commands_.end()) {
    expect(known->second.waiting && segments.empty(), "a command starts again");
    known->second.waiting = false;
    return;
  }
  expect(fetched_.has_value() && id >= next_id_, "a command starts that was not fetched");
  Command c;
  c.sqe = *fetched_;
  c.queue = fetching_;
  for (const hardware::Segment &s : segments) c.bytes += s.bytes;
  started_bytes_ += c.bytes;
  check_transfer(c, dir);
  fetched_.reset();
  next_id_ = id + 1;
  expect(++outstanding_[c.queue] <= largest_[c.queue], "more commands than the queue has entries");
  commands_.emplace(id, c);
}

void WatchedDevice::check_transfer(const Command &c, Dir dir) const {
  if (c.bytes == 0) return;
  expect(c.queue != 0 && moves_data(c.sqe) && is_valid_io(c.sqe, disk_.blocks()),
         "a command without data moves some");
  expect(c.bytes == blocks_of(c.sqe) * kBlockBytes, "a transfer has not the bytes of its command");
  expect(dir == (static_cast<Io>(c.sqe.opcode) == Io::read ? Dir::write : Dir::read),
         "a transfer goes the wrong way");
}

// ---- Commands that end.

void WatchedDevice::finish(std::uint64_t id) {
  moves_.clear();
  last_write_.reset();
  const auto at = commands_.find(id);
  fetching_ = at == commands_.end() ? kNoQueue : at->second.queue;
  if (at == commands_.end() || at->second.aborted) {
    if (at != commands_.end()) {
      outstanding_[at->second.queue]--;
      commands_.erase(at);
    }
    return check_aborted(device_.finished(id, *this));
  }
  Command &c = at->second;
  const SubmissionQueue &q = sqs_[c.queue];
  const std::uint32_t sq_head = q.head;
  const CompletionQueue &cq = cqs_[q.cq];
  expect(cq.entries != 0, "a completion queue is missing");
  const bool full = (cq.tail + 1) % cq.entries == cq.head;
  const bool executes = !std::exchange(c.executed, true);
  if (executes && c.queue == 0) c.succeeds = expect_admin(c.sqe);
  if (!full) outstanding_[c.queue]--;
  const Controller::Finished done = device_.finished(id, *this);
  if (executes)
    check_moves(&c);
  else
    expect(moves_.empty(), "a command moves its data twice");
  if (full) {
    expect(!done.vector.has_value() && !done.record.has_value(), "a full queue takes a completion");
    c.waiting = true;
  } else {
    check_completion(c, done, sq_head);
    commands_.erase(at);
  }
  end_fetch();
}

void WatchedDevice::check_aborted(const Controller::Finished &done) {
  expect(!done.vector.has_value() && !done.record.has_value() && moves_.empty() && !last_write_,
         "a command that was aborted has an effect");
  end_fetch();
}

/// What the command has moved, and what the disk must hold now.
void WatchedDevice::check_moves(Command *command) {
  Command &c = *command;
  const std::uint64_t begin = lba_of(c.sqe) * kBlockBytes;
  for (const Move &m : moves_) {
    expect(c.bytes != 0 && m.at == begin + c.moved, "data comes from elsewhere on the disk");
    expect(m.to_guest == (static_cast<Io>(c.sqe.opcode) == Io::read), "data goes the wrong way");
    c.moved += m.bytes;
  }
  expect(c.moved <= c.bytes, "a command moves more than it asked for");
  if (c.queue != 0 && static_cast<Io>(c.sqe.opcode) == Io::write_zeroes &&
      is_valid_io(c.sqe, disk_.blocks()))
    std::fill_n(shadow_.begin() + static_cast<std::ptrdiff_t>(begin),
                blocks_of(c.sqe) * kBlockBytes, std::uint8_t{0});
}

void WatchedDevice::check_completion(const Command &c, const Controller::Finished &done,
                                     std::uint32_t sq_head) {
  CompletionQueue &q = cqs_[sqs_[c.queue].cq];
  expect(last_write_.has_value() && last_write_->bytes == sizeof(Cqe) &&
             last_write_->address == q.base + q.tail * sizeof(Cqe),
         "a completion does not reach its queue");
  const Cqe &e = last_write_->head;
  expect(e.cid == c.sqe.cid && e.sq_id == c.queue, "a completion names another command");
  expect(e.sq_head == sq_head, "a completion tells another head");
  expect(((e.status & 1) != 0) == q.phase, "a completion has the wrong phase");
  q.tail = (q.tail + 1) % q.entries;
  if (q.tail == 0) q.phase = !q.phase;
  const auto status = static_cast<Status>(e.status >> 1 & 0x7ff);
  expect(done.vector.has_value() == q.interrupts && done.vector.value_or(q.vector) == q.vector,
         "a completion raises another interrupt");
  expect(done.record.has_value() == (c.queue != 0), "the log has other commands");
  if (done.record.has_value()) return check_record(c, *done.record, status);
  expect(!c.succeeds.has_value() || *c.succeeds == (status == Status::ok),
         "an admin command has another outcome");
}

void WatchedDevice::check_record(const Command &c, const Controller::Record &r,
                                 Status status) const {
  expect(r.queue == c.queue && r.cid == c.sqe.cid && r.opcode == c.sqe.opcode &&
             r.lba == lba_of(c.sqe) && r.status == status,
         "the log names another command");
  expect(r.bytes == c.bytes, "the log has other bytes than the transfer");
  if (status != Status::ok) return;
  expect(is_valid_io(c.sqe, disk_.blocks()), "a command that cannot be succeeds");
  expect(c.moved == r.bytes, "the log has other bytes than were moved");
  expect(c.moved == (moves_data(c.sqe) ? blocks_of(c.sqe) * kBlockBytes : 0),
         "a command moves less than it asked for");
}

}  // namespace drfq::nvme
