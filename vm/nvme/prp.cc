// SPDX-License-Identifier: GPL-2.0-only
#include "prp.hh"

#include <algorithm>

namespace drfq::nvme {
namespace {

constexpr std::uint64_t kOffset = kPageBytes - 1;

/// Adds a piece of memory, joined to the last one if it follows it.
void add(std::uint64_t address, std::uint64_t bytes, std::vector<hardware::Segment> *out) {
  if (!out->empty() && out->back().address + out->back().bytes == address)
    out->back().bytes += bytes;
  else
    out->push_back({address, bytes});
}

}  // namespace

Status read_prps(GuestMemory &memory, std::uint64_t prp1, std::uint64_t prp2, std::uint64_t bytes,
                 std::vector<hardware::Segment> *out) {
  out->clear();
  if (bytes == 0) return Status::ok;
  if (bytes > kMaxTransferPages * kPageBytes) return Status::invalid_field;
  if (prp1 % 4 != 0) return Status::prp_offset_invalid;
  const std::uint64_t first = std::min(bytes, kPageBytes - (prp1 & kOffset));
  add(prp1, first, out);
  std::uint64_t left = bytes - first;
  if (left == 0) return Status::ok;
  if (left <= kPageBytes) {
    if ((prp2 & kOffset) != 0) return Status::prp_offset_invalid;
    add(prp2, left, out);
    return Status::ok;
  }
  if (prp2 % 8 != 0) return Status::prp_offset_invalid;
  for (std::uint64_t entry = prp2; left != 0;) {
    std::uint64_t page = 0;
    if (!memory.read(entry, &page, sizeof page)) return Status::data_transfer_error;
    if ((page & kOffset) != 0) return Status::prp_offset_invalid;
    // The last entry of a page of the list points to the next page of the list.
    if ((entry & kOffset) == kPageBytes - 8 && left > kPageBytes) {
      entry = page;
      if (!memory.read(entry, &page, sizeof page)) return Status::data_transfer_error;
      if ((page & kOffset) != 0) return Status::prp_offset_invalid;
    }
    const std::uint64_t n = std::min(left, kPageBytes);
    add(page, n, out);
    left -= n;
    entry += 8;
  }
  return Status::ok;
}

}  // namespace drfq::nvme
