// SPDX-License-Identifier: GPL-2.0-only
#include "disk.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  void *m = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) fail("the image " + path, fd);
  file_ = fd;
  data_ = static_cast<std::uint8_t *>(m);
}

Disk::~Disk() {
  munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

bool Disk::reserve(std::uint64_t offset, std::uint64_t bytes) {
  if (file_ < 0) return true;
  int result = 0;
  do {
    result = fallocate(file_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  // Some file systems lack the call.
  return result == 0 || (errno != ENOSPC && errno != EDQUOT);
}

bool Disk::zero(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes;
  if (file_ >= 0) {
    constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(file_, kHole, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0)
      return true;
    if (!reserve(offset, bytes)) return false;
    std::memset(data_ + offset, 0, bytes);
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
