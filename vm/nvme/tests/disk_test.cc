// SPDX-License-Identifier: GPL-2.0-only
// What the device stores, and what it costs the host.
#include "nvme/disk.hh"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace drfq::nvme {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A sparse image of 1 MiB.
class DiskImage : public testing::Test {
 protected:
  DiskImage() : file_(mkstemp(path_.data())) {
    EXPECT_GE(file_, 0);
    EXPECT_EQ(ftruncate(file_, kMiB), 0);
  }
  ~DiskImage() override {
    close(file_);
    unlink(path_.c_str());
  }
  /// Bytes that the file takes of the host's storage.
  std::uint64_t allocated() const {
    struct stat s{};
    EXPECT_EQ(fstat(file_, &s), 0);
    return static_cast<std::uint64_t>(s.st_blocks) * 512;
  }
  std::string path_ = testing::TempDir() + "disk_test.XXXXXX";
  const int file_;
};

TEST_F(DiskImage, OnlyOneMachineMayHaveIt) {
  {
    Disk first(path_);
    try {
      Disk second(path_);
      FAIL() << "both have it";
    } catch (const std::runtime_error &e) {
      EXPECT_NE(std::string(e.what()).find("is in use"), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(Disk(path_).bytes(), kMiB) << "the first machine has ended";
}

TEST_F(DiskImage, AReservedPartTakesTheHostsStorage) {
  Disk disk(path_);
  EXPECT_EQ(allocated(), 0u);
  EXPECT_TRUE(disk.reserve(64 << 10, 8 << 10));
  EXPECT_GE(allocated(), 8u << 10);
  EXPECT_EQ(*disk.at(64 << 10), 0u);
}

}  // namespace
}  // namespace drfq::nvme
