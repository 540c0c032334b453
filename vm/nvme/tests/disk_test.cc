// SPDX-License-Identifier: GPL-2.0-only
// What the device stores, and what it costs the host.
#include "nvme/disk.hh"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
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

TEST_F(DiskImage, AZeroedPartIsGivenBack) {
  Disk disk(path_);
  ASSERT_TRUE(disk.reserve(0, kMiB));
  std::memset(disk.at(0), 1, kMiB);
  const std::uint64_t before = allocated();
  ASSERT_TRUE(disk.zero(512, 512 << 10));
  EXPECT_EQ(*disk.at(511), 1u);
  for (std::uint64_t i = 512; i < 512 + (512 << 10); i += 128) ASSERT_EQ(*disk.at(i), 0u) << i;
  EXPECT_EQ(*disk.at(512 + (512 << 10)), 1u);
  EXPECT_LE(allocated(), before - (500 << 10));
}

TEST(Disk, AZeroedPartOfMemoryIsGivenBack) {
  constexpr std::uint64_t kPage = 4096;
  Disk disk(kMiB);
  const auto resident = [&disk](std::uint64_t page) {
    unsigned char there = 0;
    EXPECT_EQ(mincore(disk.at(page * kPage), kPage, &there), 0);
    return (there & 1) != 0;
  };
  std::memset(disk.at(0), 1, 16 * kPage);
  // From within page 2 to within page 10, and within page 12.
  ASSERT_TRUE(disk.zero(2 * kPage + 512, 8 * kPage));
  ASSERT_TRUE(disk.zero(12 * kPage + 512, 512));
  EXPECT_TRUE(resident(2));
  for (std::uint64_t page = 3; page < 10; page++) EXPECT_FALSE(resident(page)) << page;
  EXPECT_TRUE(resident(10));
  for (std::uint64_t at = 0; at < 16 * kPage; at += 512) {
    const bool zero = (at >= 2 * kPage + 512 && at < 10 * kPage + 512) || at == 12 * kPage + 512;
    EXPECT_EQ(*disk.at(at), zero ? 0 : 1) << at;
    EXPECT_EQ(*disk.at(at + 511), zero ? 0 : 1) << at;
  }
}

}  // namespace
}  // namespace drfq::nvme
