// SPDX-License-Identifier: GPL-2.0-only
#include "identify.hh"

#include <cstring>

namespace drfq::nvme {
namespace {

constexpr std::uint8_t kEui64[] = {'d', 'r', 'f', 'q', 'n', 'v', 'm', 'e'};

template <typename T>
void put(Page *page, std::size_t offset, T value) {
  std::memcpy(page->data() + offset, &value, sizeof value);
}

/// Text of a fixed width, filled up with spaces.
void put_text(Page *page, std::size_t offset, std::size_t width, const char *text) {
  std::memset(page->data() + offset, ' ', width);
  std::memcpy(page->data() + offset, text, std::strlen(text));
}

/// Figure 247.
void identify_controller(Page *page) {
  put_text(page, 4, 20, "1");
  put_text(page, 24, 40, "scx_drfq modelled NVMe");
  put_text(page, 64, 8, "1");
  put<std::uint8_t>(page, 77, kMdts);
  put<std::uint32_t>(page, 80, kVersion);
  put<std::uint8_t>(page, 111, 1);                    // CNTRLTYPE: an I/O controller
  put<std::uint8_t>(page, 259, kMaxAsyncEvents - 1);  // AERL
  put<std::uint8_t>(page, 512, 0x66);                 // SQES: 64 bytes
  put<std::uint8_t>(page, 513, 0x44);                 // CQES: 16 bytes
  put<std::uint32_t>(page, 516, 1);                   // NN: one namespace
  put<std::uint16_t>(page, 520, 1u << 3);             // ONCS: Write Zeroes
  static constexpr char kName[] = "nqn.2026-11.drfq:modelled-nvme";
  std::memcpy(page->data() + 768, kName, sizeof kName);
}

/// Figure 245.
void identify_namespace(std::uint64_t blocks, Page *page) {
  for (const std::size_t size : {0, 8, 16}) put<std::uint64_t>(page, size, blocks);
  std::memcpy(page->data() + 120, kEui64, sizeof kEui64);
  put<std::uint32_t>(page, 128, 9u << 16);  // LBA format 0: 512 bytes
}

/// Figure 249: one descriptor, an EUI-64.
void identify_descriptors(Page *page) {
  put<std::uint8_t>(page, 0, 1);
  put<std::uint8_t>(page, 1, sizeof kEui64);
  std::memcpy(page->data() + 4, kEui64, sizeof kEui64);
}

}  // namespace

Status identify(const Sqe &c, std::uint64_t blocks, Page *page) {
  page->fill(0);
  switch (c.cdw10 & 0xff) {
    case 0:
      if (c.nsid != 1) return Status::invalid_namespace;
      identify_namespace(blocks, page);
      return Status::ok;
    case 1:
      identify_controller(page);
      return Status::ok;
    case 2:
      if (c.nsid >= 0xfffffffe) return Status::invalid_namespace;
      if (c.nsid < 1) put<std::uint32_t>(page, 0, 1);
      return Status::ok;
    case 3:
      if (c.nsid != 1) return Status::invalid_namespace;
      identify_descriptors(page);
      return Status::ok;
    default:
      return Status::invalid_field;
  }
}

}  // namespace drfq::nvme
