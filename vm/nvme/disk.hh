// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_DISK_HH
#define DRFQ_NVME_DISK_HH

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  /// A part of a disk of zeros.
  std::uint8_t *at(std::uint64_t offset) { return data_ + offset; }

  /// The data of a part, until the next call. Null: the host cannot read it.
  const std::uint8_t *load(std::uint64_t offset, std::size_t bytes);
  /// Where to put new data of a part, for store().
  std::uint8_t *place(std::uint64_t offset, std::size_t bytes);
  /// Keeps what lies in the last place(), which had the same arguments. False: the host cannot, as
  /// when it has no storage left. The part may then hold some of the new data.
  bool store(std::uint64_t offset, std::size_t bytes);
  /// Zeroes a part and gives its whole pages back to the host. False: as above.
  bool zero(std::uint64_t offset, std::uint64_t bytes);

 private:
  int file_ = -1;  ///< locked, so that no other machine changes the image
  /// Data of the file on its way. A mapping would raise a signal where the host fails, and a call
  /// returns an error.
  std::vector<std::uint8_t> buffer_;
  std::uint8_t *data_ = nullptr;  ///< without a file
  std::uint64_t bytes_ = 0;
};

}  // namespace drfq::nvme

#endif
