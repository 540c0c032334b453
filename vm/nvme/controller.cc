// SPDX-License-Identifier: GPL-2.0-only
#include "controller.hh"

#include <algorithm>
#include <cstring>
#include <utility>

#include "prp.hh"

namespace drfq::nvme {
namespace {

/// CAP (3.1.1): contiguous queues, a time-out of 2 s, the NVM command set.
constexpr std::uint64_t kCapabilities =
    (kMaxEntries - 1) | 1u << 16 | std::uint64_t{4} << 24 | std::uint64_t{1} << 37;

constexpr std::uint32_t kEnable = 1;

}  // namespace

Controller::Controller(Disk &disk, unsigned queues, std::uint8_t *registers)
    : disk_(disk),
      queues_(queues),
      registers_(registers),
      sqs_(queues + 1),
      cqs_(queues + 1),
      fetched_(queues + 1) {
  publish();
}

template <typename T>
T Controller::get(std::uint64_t offset) const {
  T value;
  std::memcpy(&value, registers_ + offset, sizeof value);
  return value;
}

template <typename T>
void Controller::set(std::uint64_t offset, T value) {
  std::memcpy(registers_ + offset, &value, sizeof value);
}

void Controller::appear() {
  cap_ = kCapabilities;
  vs_ = kVersion;
  csts_ = 0;
  publish();
}

/// The guest can overwrite read-only registers, because all of them are memory.
void Controller::publish() {
  set(reg::kCap, cap_);
  set(reg::kVs, vs_);
  set(reg::kIntms, std::uint32_t{0});
  set(reg::kIntmc, std::uint32_t{0});
  set(reg::kCsts, csts_);
  set(reg::kNssr, std::uint32_t{0});
}

void Controller::stored(std::uint64_t offset, unsigned bytes, std::uint64_t value, Port &port) {
  if (offset >= kRegisterBytes || csts_ == ~0u) return publish();
  if (offset >= reg::kEnd) {
    if (bytes == 4 && offset % 4 == 0 && is_ready()) ring(offset - reg::kEnd, value, port);
    return;
  }
  if (offset < reg::kCc + 4 && offset + bytes > reg::kCc)
    configure(get<std::uint32_t>(reg::kCc), port);
  publish();
}

void Controller::configure(std::uint32_t cc, Port &port) {
  const std::uint32_t before = std::exchange(cc_, cc);
  if ((cc & kEnable) != 0 && (before & kEnable) == 0) enable();
  if ((cc & kEnable) == 0 && (before & kEnable) != 0) reset(port);
  csts_ &= ~(kShutdownDone | kShutdownDone >> 1);
  if ((cc >> 14 & 3) != 0) csts_ |= kShutdownDone;
}

void Controller::enable() {
  const auto aqa = get<std::uint32_t>(reg::kAqa);
  const std::uint32_t entries[] = {(aqa & 0xfff) + 1, (aqa >> 16 & 0xfff) + 1};
  const bool pages = (cc_ >> 7 & 0xf) == 0, nvm = (cc_ >> 4 & 7) == 0;
  if (!pages || !nvm || std::min(entries[0], entries[1]) < 2) {
    csts_ |= kFatal;
    return;
  }
  sqs_[0] = {};
  sqs_[0].base = get<std::uint64_t>(reg::kAsq) & ~(kPageBytes - 1);
  sqs_[0].size = entries[0];
  cqs_[0] = {};
  cqs_[0].base = get<std::uint64_t>(reg::kAcq) & ~(kPageBytes - 1);
  cqs_[0].size = entries[1];
  cqs_[0].interrupts = true;
  csts_ |= kReady;
}

void Controller::reset(Port &port) {
  sqs_.assign(sqs_.size(), {});
  cqs_.assign(cqs_.size(), {});
  fetched_.assign(fetched_.size(), 0);
  commands_.clear();
  async_events_ = 0;
  csts_ &= ~(kReady | kFatal);
  port.cancel();
}

/// A doorbell (3.1.24, 3.1.25). A value beyond the queue is ignored.
void Controller::ring(std::uint64_t offset, std::uint64_t value, Port &port) {
  const std::uint64_t id = offset / 8;
  if (id >= sqs_.size()) return;
  if (offset % 8 == 0) {
    SubmissionQueue &q = sqs_[id];
    if (value >= q.size) return;
    q.tail = static_cast<std::uint32_t>(value);
    fetch(static_cast<std::uint16_t>(id), port);
    return;
  }
  CompletionQueue &q = cqs_[id];
  if (value >= q.size) return;
  q.head = static_cast<std::uint32_t>(value);
  retry(&q, port);
}

/// Completions that found no room go through the port again, which finds their time. One that
/// finds none this time waits again.
void Controller::retry(CompletionQueue *q, Port &port) {
  const std::uint32_t room = (q->head + q->size - q->tail - 1) % q->size;
  for (std::uint32_t i = 0; i < room && !q->waiting.empty(); i++) {
    port.start(q->waiting.front(), Dir::write, {}, q->vector);
    q->waiting.pop_front();
  }
}

/// Fetches commands, at most as many as the queue has entries: a guest that never looks at its
/// completions must not make us keep more.
void Controller::fetch(std::uint16_t id, Port &port) {
  for (;;) {
    SubmissionQueue &q = sqs_[id];
    if (q.broken || q.head == q.tail || fetched_[id] >= q.size) return;
    Sqe sqe;
    if (!port.read(q.base + q.head * sizeof sqe, &sqe, sizeof sqe)) {
      csts_ |= kFatal;
      q.broken = true;
      return publish();
    }
    q.head = (q.head + 1) % q.size;
    begin(id, sqe, port);
  }
}

void Controller::begin(std::uint16_t queue, const Sqe &sqe, Port &port) {
  Command c;
  c.sqe = sqe;
  c.queue = queue;
  Dir dir = Dir::write;
  if (queue != 0) {
    c.status = check_io(sqe, &c, port);
    if (static_cast<Io>(sqe.opcode) == Io::write) dir = Dir::read;
  } else if (static_cast<Admin>(sqe.opcode) == Admin::async_event) {
    // Nothing ever happens that such a command would report.
    if (async_events_ < kMaxAsyncEvents) {
      async_events_++;
      return;
    }
    c.status = Status::async_limit;
  }
  fetched_[queue]++;
  const std::uint64_t id = next_id_++;
  const Command &kept = commands_.emplace(id, std::move(c)).first->second;
  // Admin commands move no data that is worth modelling.
  port.start(id, dir, kept.data, cqs_[sqs_[queue].cq].vector);
}

Status Controller::check_io(const Sqe &s, Command *c, Port &port) {
  const auto opcode = static_cast<Io>(s.opcode);
  if (s.flags != 0) return Status::invalid_field;  // fused, or no PRPs
  if (opcode == Io::flush) return Status::ok;
  if (opcode != Io::read && opcode != Io::write && opcode != Io::write_zeroes)
    return Status::invalid_opcode;
  if (s.nsid != 1) return Status::invalid_namespace;
  const std::uint64_t lba = s.cdw10 | std::uint64_t{s.cdw11} << 32, blocks = (s.cdw12 & 0xffff) + 1;
  if (lba >= disk_.blocks() || blocks > disk_.blocks() - lba) return Status::lba_out_of_range;
  if (opcode == Io::write_zeroes) return Status::ok;
  const Status status = read_prps(port, s.prp1, s.prp2, blocks * kBlockBytes, &c->data);
  if (status != Status::ok) c->data.clear();
  return status;
}

Status Controller::execute_io(const Command &c, Port &port) {
  const std::uint64_t at = (c.sqe.cdw10 | std::uint64_t{c.sqe.cdw11} << 32) * kBlockBytes;
  const std::uint64_t bytes = ((c.sqe.cdw12 & 0xffff) + 1) * kBlockBytes;
  switch (static_cast<Io>(c.sqe.opcode)) {
    case Io::write:
    case Io::read:
      return copy(c, port);
    case Io::write_zeroes:
      return disk_.zero(at, bytes) ? Status::ok : Status::write_fault;
    default:
      return Status::ok;
  }
}

/// Moves the data of a read or a write.
Status Controller::copy(const Command &c, Port &port) {
  std::uint64_t at = (c.sqe.cdw10 | std::uint64_t{c.sqe.cdw11} << 32) * kBlockBytes;
  const bool to_guest = static_cast<Io>(c.sqe.opcode) == Io::read;
  for (const hardware::Segment &s : c.data) {
    if (to_guest) {
      const std::uint8_t *from = disk_.load(at, s.bytes);
      if (from == nullptr) return Status::unrecovered_read;
      if (!port.write(s.address, from, s.bytes)) return Status::data_transfer_error;
    } else {
      if (!port.read(s.address, disk_.place(at, s.bytes), s.bytes))
        return Status::data_transfer_error;
      if (!disk_.store(at, s.bytes)) return Status::write_fault;
    }
    at += s.bytes;
  }
  return Status::ok;
}

Controller::Finished Controller::finished(std::uint64_t id, Port &port) {
  const auto found = commands_.find(id);
  if (found == commands_.end()) return {};
  Command &c = found->second;
  const std::uint16_t queue = c.queue;
  if (c.aborted) {
    fetched_[queue]--;
    commands_.erase(found);
    fetch(queue, port);
    return {};
  }
  if (!c.executed && c.status == Status::ok)
    c.status = c.queue == 0 ? execute_admin(c.sqe, &c.result, port) : execute_io(c, port);
  c.executed = true;
  CompletionQueue &cq = cqs_[sqs_[queue].cq];
  if (cq.is_full()) {
    cq.waiting.push_back(id);
    return {};
  }
  Finished out;
  if (queue != 0) {
    const std::uint64_t lba = c.sqe.cdw10 | std::uint64_t{c.sqe.cdw11} << 32;
    std::uint64_t bytes = 0;
    for (const hardware::Segment &s : c.data) bytes += s.bytes;
    out.record = Record{lba, bytes, queue, c.sqe.cid, c.sqe.opcode, c.status};
  }
  post(c, &cq, port);
  if (cq.interrupts) out.vector = cq.vector;
  fetched_[queue]--;
  commands_.erase(found);
  fetch(queue, port);
  return out;
}

void Controller::post(const Command &c, CompletionQueue *q, Port &port) {
  Cqe e;
  e.result = c.result;
  e.sq_head = static_cast<std::uint16_t>(sqs_[c.queue].head);
  e.sq_id = c.queue;
  e.cid = c.sqe.cid;
  e.status = status_field(c.status, q->phase);
  if (!port.write(q->base + q->tail * sizeof e, &e, sizeof e)) {
    csts_ |= kFatal;
    publish();
  }
  q->tail = (q->tail + 1) % q->size;
  if (q->tail == 0) q->phase = !q->phase;
}

}  // namespace drfq::nvme
