// SPDX-License-Identifier: GPL-2.0-only
// The part of NVM Express that the model speaks. Names and numbers are those of the NVM Express
// Base Specification 1.4, whose section or figure stands beside them.
#ifndef DRFQ_NVME_PROTOCOL_HH
#define DRFQ_NVME_PROTOCOL_HH

#include <cstddef>
#include <cstdint>

namespace drfq::nvme {

inline constexpr std::uint64_t kPageBytes = 4096;  ///< CC.MPS of 0 is the only one supported
inline constexpr std::uint64_t kBlockBytes = 512;  ///< of the namespace
inline constexpr unsigned kMaxTransferPages = 32;  ///< 128 KiB, 2^MDTS pages
inline constexpr unsigned kMdts = 5;
inline constexpr unsigned kMaxEntries = 1024;  ///< of a queue
inline constexpr unsigned kMaxAsyncEvents = 4;

/// Controller registers (3.1).
namespace reg {
inline constexpr std::uint64_t kCap = 0x00, kVs = 0x08, kIntms = 0x0c, kIntmc = 0x10, kCc = 0x14,
                               kCsts = 0x1c, kNssr = 0x20, kAqa = 0x24, kAsq = 0x28, kAcq = 0x30,
                               kEnd = 0x1000;  ///< the doorbells follow
}  // namespace reg

inline constexpr std::uint32_t kVersion = 0x10400;
inline constexpr std::uint32_t kReady = 1, kFatal = 2, kShutdownDone = 8;  ///< of CSTS

/// Submission queue entry (4.2).
struct Sqe {
  std::uint8_t opcode = 0, flags = 0;
  std::uint16_t cid = 0;
  std::uint32_t nsid = 0, cdw2 = 0, cdw3 = 0;
  std::uint64_t metadata = 0, prp1 = 0, prp2 = 0;
  std::uint32_t cdw10 = 0, cdw11 = 0, cdw12 = 0, cdw13 = 0, cdw14 = 0, cdw15 = 0;
};
static_assert(sizeof(Sqe) == 64);

/// Completion queue entry (4.6).
struct Cqe {
  std::uint32_t result = 0, reserved = 0;
  std::uint16_t sq_head = 0, sq_id = 0, cid = 0, status = 0;
};
static_assert(sizeof(Cqe) == 16);

/// Admin commands (figure 139).
enum class Admin : std::uint8_t {
  delete_sq = 0x00,
  create_sq = 0x01,
  get_log_page = 0x02,
  delete_cq = 0x04,
  create_cq = 0x05,
  identify = 0x06,
  abort = 0x08,
  set_features = 0x09,
  get_features = 0x0a,
  async_event = 0x0c,
};

/// NVM commands (figure 346).
enum class Io : std::uint8_t { flush = 0x00, write = 0x01, read = 0x02, write_zeroes = 0x08 };

/// Status type and code (4.6.1).
enum class Status : std::uint16_t {
  ok = 0x000,
  invalid_opcode = 0x001,
  invalid_field = 0x002,
  data_transfer_error = 0x004,
  invalid_namespace = 0x00b,
  prp_offset_invalid = 0x013,
  lba_out_of_range = 0x080,
  cq_invalid = 0x100,
  queue_id_invalid = 0x101,
  queue_size_invalid = 0x102,
  async_limit = 0x105,
  vector_invalid = 0x108,
  queue_deletion_invalid = 0x10c,
  feature_not_changeable = 0x10e,
  write_fault = 0x280,
  unrecovered_read = 0x281,
};

/// The status field of a completion: its phase, and for errors "do not retry".
inline std::uint16_t status_field(Status s, bool phase) {
  const unsigned code = static_cast<unsigned>(s) | (s == Status::ok ? 0 : 0x4000);
  return static_cast<std::uint16_t>(code << 1 | (phase ? 1 : 0));
}

}  // namespace drfq::nvme

#endif
