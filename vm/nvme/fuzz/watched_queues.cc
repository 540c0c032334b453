// SPDX-License-Identifier: GPL-2.0-only
// What admin commands must do to the queues (NVMe 1.4, 5.3 to 5.6).
#include "expectations.hh"
#include "watched_device.hh"

namespace drfq::nvme {
namespace {

constexpr std::uint32_t kContiguous = 1, kInterrupts = 2;

bool is_io_queue(std::uint32_t id) { return id >= 1 && id <= WatchedDevice::kQueues; }

/// Whether queues may have the size and the place that the command tells.
bool fits(const Sqe &s) {
  const std::uint32_t entries = (s.cdw10 >> 16) + 1;
  return entries >= 2 && entries <= kMaxEntries && (s.cdw11 & kContiguous) != 0 &&
         s.prp1 % kPageBytes == 0;
}

}  // namespace

/// Does what the command does to queues. Returns whether it succeeds, if the model knows.
std::optional<bool> WatchedDevice::expect_admin(const Sqe &s) {
  const std::uint32_t id = s.cdw10 & 0xffff;
  switch (static_cast<Admin>(s.opcode)) {
    case Admin::create_cq:
      return expect_create_cq(s);
    case Admin::create_sq:
      return expect_create_sq(s);
    case Admin::delete_sq:
      return expect_delete_sq(id);
    case Admin::delete_cq:
      return expect_delete_cq(id);
    case Admin::async_event:
      return false;
    default:
      return {};
  }
}

bool WatchedDevice::expect_create_cq(const Sqe &s) {
  const std::uint32_t id = s.cdw10 & 0xffff, vector = s.cdw11 >> 16;
  if (!is_io_queue(id) || cqs_[id].entries != 0 || !fits(s) || vector > kQueues) return false;
  cqs_[id] = {};
  cqs_[id].base = s.prp1;
  cqs_[id].entries = (s.cdw10 >> 16) + 1;
  cqs_[id].interrupts = (s.cdw11 & kInterrupts) != 0;
  cqs_[id].vector = vector;
  return true;
}

bool WatchedDevice::expect_create_sq(const Sqe &s) {
  const std::uint32_t id = s.cdw10 & 0xffff, cq = s.cdw11 >> 16;
  if (!is_io_queue(id) || sqs_[id].entries != 0 || !fits(s)) return false;
  if (!is_io_queue(cq) || cqs_[cq].entries == 0) return false;
  sqs_[id] = {};
  sqs_[id].base = s.prp1;
  sqs_[id].entries = (s.cdw10 >> 16) + 1;
  sqs_[id].cq = cq;
  largest_[id] = std::max(largest_[id], sqs_[id].entries);
  return true;
}

/// Its commands end without completion.
bool WatchedDevice::expect_delete_sq(unsigned id) {
  if (!is_io_queue(id) || sqs_[id].entries == 0) return false;
  sqs_[id] = {};
  for (auto at = commands_.begin(); at != commands_.end();) {
    Command &c = at->second;
    if (c.queue == id && c.waiting) {
      outstanding_[id]--;
      at = commands_.erase(at);
      continue;
    }
    if (c.queue == id) c.aborted = true;
    ++at;
  }
  return true;
}

bool WatchedDevice::expect_delete_cq(unsigned id) {
  if (!is_io_queue(id) || cqs_[id].entries == 0) return false;
  for (const SubmissionQueue &q : sqs_)
    if (q.entries != 0 && q.cq == id) return false;
  cqs_[id] = {};
  return true;
}

}  // namespace drfq::nvme
