// SPDX-License-Identifier: GPL-2.0-only
#include "disk.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "protocol.hh"

namespace drfq::nvme {
namespace {

[[noreturn]] void fail(const std::string &what, int fd) {
  const std::string why = std::strerror(errno);
  if (fd >= 0) close(fd);
  throw std::runtime_error(what + ": " + why);
}

/// Calls pread() or pwrite() until all bytes have moved. False: the host refuses.
template <typename Call, typename Byte>
bool move_all(Call call, int fd, Byte *data, std::size_t bytes, std::uint64_t offset) {
  while (bytes != 0) {
    const ssize_t moved = call(fd, data, bytes, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    data += moved;
    bytes -= static_cast<std::size_t>(moved);
    offset += static_cast<std::uint64_t>(moved);
  }
  return true;
}

}  // namespace

Disk::Disk(std::uint64_t bytes) : bytes_(bytes) {
  void *m = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) fail("a disk of " + std::to_string(bytes) + " bytes", -1);
  data_ = static_cast<std::uint8_t *>(m);
}

Disk::Disk(const std::string &path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat s{};
  if (fd < 0 || fstat(fd, &s) != 0) fail("the image " + path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail("the image " + path + " cannot be locked", fd);
    close(fd);
    throw std::runtime_error("the image " + path +
                             " is in use: end the machine that has it, or copy the image");
  }
  bytes_ = static_cast<std::uint64_t>(s.st_size);
  if (bytes_ == 0 || bytes_ % kBlockBytes != 0) {
    close(fd);
    throw std::runtime_error("the image " + path + " has " + std::to_string(bytes_) +
                             " bytes; it must be a multiple of 512, at least one");
  }
  file_ = fd;
}

Disk::~Disk() {
  if (file_ >= 0)
    close(file_);
  else
    munmap(data_, bytes_);
}

const std::uint8_t *Disk::load(std::uint64_t offset, std::size_t bytes) {
  std::uint8_t *to = place(offset, bytes);
  return file_ < 0 || move_all(pread, file_, to, bytes, offset) ? to : nullptr;
}

std::uint8_t *Disk::place(std::uint64_t offset, std::size_t bytes) {
  if (file_ < 0) return data_ + offset;
  buffer_.resize(std::max(buffer_.size(), bytes));
  return buffer_.data();
}

bool Disk::store(std::uint64_t offset, std::size_t bytes) {
  return file_ < 0 || move_all(pwrite, file_, buffer_.data(), bytes, offset);
}

bool Disk::zero(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes;
  if (file_ >= 0) {
    constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(file_, kHole, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0)
      return true;
    // Some file systems lack the call.
    for (std::uint64_t at = offset, n; at < end; at += n) {
      n = std::min(end - at, kMaxTransferPages * kPageBytes);
      std::memset(place(at, n), 0, n);
      if (!store(at, n)) return false;
    }
    return true;
  }
  std::uint64_t first = (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::uint64_t last = end / kPageBytes * kPageBytes;
  if (first >= last || madvise(data_ + first, last - first, MADV_DONTNEED) != 0) first = last = end;
  std::memset(data_ + offset, 0, first - offset);
  std::memset(data_ + last, 0, end - last);
  return true;
}

std::uint64_t Disk::blocks() const { return bytes_ / kBlockBytes; }

}  // namespace drfq::nvme
