// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_DISK_HH
#define DRFQ_NVME_DISK_HH

#include <cstdint>
#include <string>

namespace drfq::nvme {

/// What the device stores: a file of the host, or zeros that end with the process.
class Disk {
 public:
  /// A disk of zeros. bytes: a multiple of a block.
  explicit Disk(std::uint64_t bytes);
  /// A raw image, which the guest's writes change, and which no other machine may have. Throws
  /// std::runtime_error.
  explicit Disk(const std::string &path);
  ~Disk();
  Disk(const Disk &) = delete;
  Disk &operator=(const Disk &) = delete;

  std::uint64_t blocks() const;
  std::uint64_t bytes() const { return bytes_; }
  std::uint8_t *at(std::uint64_t offset) { return data_ + offset; }

  /// Gets the host's storage for a write of a part. False: the host has none left. A store without
  /// it would then end the process by a signal.
  bool reserve(std::uint64_t offset, std::uint64_t bytes);
  /// Zeroes a part and gives its whole pages back to the host. False: as above.
  bool zero(std::uint64_t offset, std::uint64_t bytes);

 private:
  int file_ = -1;  ///< locked, so that no other machine changes the image
  std::uint8_t *data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace drfq::nvme

#endif
