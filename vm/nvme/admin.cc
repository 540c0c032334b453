// SPDX-License-Identifier: GPL-2.0-only
// The controller's admin commands (NVMe 1.4, section 5).
#include <algorithm>

#include "controller.hh"
#include "identify.hh"
#include "prp.hh"

namespace drfq::nvme {
namespace {

constexpr std::uint32_t kContiguous = 1, kInterrupts = 2;

/// Features (5.21.1) that a driver uses to set up.
enum class Feature : std::uint8_t {
  arbitration = 0x01,
  power = 0x02,
  temperature = 0x04,
  error_recovery = 0x05,
  write_cache = 0x06,
  queues = 0x07,
  coalescing = 0x08,
  vector = 0x09,
  atomicity = 0x0a,
  async_events = 0x0b,
};

/// Writes the head of a page to where a command wants its data.
Status write_data(const Sqe &c, const Page &page, std::uint64_t bytes, GuestMemory &memory) {
  std::vector<hardware::Segment> data;
  const Status status = read_prps(memory, c.prp1, c.prp2, bytes, &data);
  if (status != Status::ok) return status;
  const std::uint8_t *from = page.data();
  for (const hardware::Segment &s : data) {
    if (!memory.write(s.address, from, s.bytes)) return Status::data_transfer_error;
    from += s.bytes;
  }
  return Status::ok;
}

}  // namespace

Status Controller::execute_admin(const Sqe &c, std::uint32_t *result, Port &port) {
  const auto id = static_cast<std::uint16_t>(c.cdw10);
  switch (static_cast<Admin>(c.opcode)) {
    case Admin::delete_sq:
      return delete_sq(id, port);
    case Admin::create_sq:
      return create_sq(c);
    case Admin::delete_cq:
      return delete_cq(id);
    case Admin::create_cq:
      return create_cq(c);
    case Admin::identify:
      return identify(c, port);
    case Admin::get_log_page:
      return get_log_page(c, port);
    case Admin::abort:
      *result = 1;  // not aborted
      return Status::ok;
    case Admin::set_features:
    case Admin::get_features:
      return features(c, result);
    default:
      return Status::invalid_opcode;
  }
}

Status Controller::create_cq(const Sqe &c) {
  const std::uint32_t id = c.cdw10 & 0xffff, size = (c.cdw10 >> 16) + 1, vector = c.cdw11 >> 16;
  if (!is_io_queue(id) || cqs_[id].size != 0) return Status::queue_id_invalid;
  if (size < 2 || size > kMaxEntries) return Status::queue_size_invalid;
  if ((c.cdw11 & kContiguous) == 0) return Status::invalid_field;
  if (c.prp1 % kPageBytes != 0) return Status::prp_offset_invalid;
  if (vector > queues_) return Status::vector_invalid;
  CompletionQueue q;
  q.base = c.prp1;
  q.size = size;
  q.vector = static_cast<std::uint16_t>(vector);
  q.interrupts = (c.cdw11 & kInterrupts) != 0;
  cqs_[id] = std::move(q);
  return Status::ok;
}

Status Controller::create_sq(const Sqe &c) {
  const std::uint32_t id = c.cdw10 & 0xffff, size = (c.cdw10 >> 16) + 1, cq = c.cdw11 >> 16;
  if (!is_io_queue(id) || sqs_[id].size != 0) return Status::queue_id_invalid;
  if (size < 2 || size > kMaxEntries) return Status::queue_size_invalid;
  if ((c.cdw11 & kContiguous) == 0) return Status::invalid_field;
  if (c.prp1 % kPageBytes != 0) return Status::prp_offset_invalid;
  if (!is_io_queue(cq) || cqs_[cq].size == 0) return Status::cq_invalid;
  SubmissionQueue q;
  q.base = c.prp1;
  q.size = size;
  q.cq = static_cast<std::uint16_t>(cq);
  sqs_[id] = q;
  return Status::ok;
}

/// Its unfinished commands are aborted without completion, as the specification allows. Those
/// in transfer stay until that ends. A driver that creates and deletes a queue again and again
/// must not make us keep more and more transfers.
Status Controller::delete_sq(std::uint16_t id, Port &port) {
  if (!is_io_queue(id) || sqs_[id].size == 0) return Status::queue_id_invalid;
  CompletionQueue &cq = cqs_[sqs_[id].cq];
  for (auto w = cq.waiting.begin(); w != cq.waiting.end();) {
    const auto c = commands_.find(*w);
    if (c->second.queue != id) {
      ++w;
      continue;
    }
    commands_.erase(c);
    fetched_[id]--;
    w = cq.waiting.erase(w);
  }
  for (auto &[number, c] : commands_) c.aborted |= c.queue == id;
  sqs_[id] = {};
  // Room that was meant for an aborted command is free.
  retry(&cq, port);
  return Status::ok;
}

Status Controller::delete_cq(std::uint16_t id) {
  if (!is_io_queue(id) || cqs_[id].size == 0) return Status::queue_id_invalid;
  for (std::size_t q = 1; q < sqs_.size(); q++)
    if (sqs_[q].size != 0 && sqs_[q].cq == id) return Status::queue_deletion_invalid;
  cqs_[id] = {};
  return Status::ok;
}

Status Controller::identify(const Sqe &c, Port &port) {
  Page page;
  const Status status = nvme::identify(c, disk_.blocks(), &page);
  return status == Status::ok ? write_data(c, page, page.size(), port) : status;
}

/// Error, SMART and firmware logs, all of which are empty. Identify says that no command may begin
/// within a log.
Status Controller::get_log_page(const Sqe &c, Port &port) {
  const std::uint32_t log = c.cdw10 & 0xff;
  if (log < 1 || log > 3 || c.cdw12 != 0 || c.cdw13 != 0) return Status::invalid_field;
  const std::uint64_t dwords = (std::uint64_t{c.cdw11 & 0xffff} << 16 | c.cdw10 >> 16) + 1;
  Page page{};
  return write_data(c, page, std::min<std::uint64_t>(4 * dwords, page.size()), port);
}

/// All features but the number of queues are 0 and stay so.
Status Controller::features(const Sqe &c, std::uint32_t *result) const {
  const bool changes = static_cast<Admin>(c.opcode) == Admin::set_features && c.cdw11 != 0;
  switch (static_cast<Feature>(c.cdw10 & 0xff)) {
    case Feature::queues:
      *result = (queues_ - 1) | (queues_ - 1) << 16;
      return Status::ok;
    case Feature::arbitration:
    case Feature::power:
    case Feature::temperature:
    case Feature::error_recovery:
    case Feature::write_cache:
    case Feature::coalescing:
    case Feature::vector:
    case Feature::atomicity:
    case Feature::async_events:
      return changes ? Status::feature_not_changeable : Status::ok;
    default:
      return Status::invalid_field;
  }
}

}  // namespace drfq::nvme
