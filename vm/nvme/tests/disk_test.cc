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

#include "file_size_limit.hh"

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
  static void put(Disk *disk, std::uint64_t offset, std::size_t bytes, std::uint8_t value) {
    std::memset(disk->place(offset, bytes), value, bytes);
    ASSERT_TRUE(disk->store(offset, bytes));
  }
  static int byte(Disk *disk, std::uint64_t offset) {
    const std::uint8_t *data = disk->load(offset, 1);
    return data == nullptr ? -1 : *data;
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

TEST_F(DiskImage, WhatIsStoredIsLoadedAndTakesTheHostsStorage) {
  Disk disk(path_);
  EXPECT_EQ(allocated(), 0u);
  put(&disk, 64 << 10, 8 << 10, 1);
  EXPECT_GE(allocated(), 8u << 10);
  EXPECT_EQ(byte(&disk, (64 << 10) - 1), 0);
  EXPECT_EQ(byte(&disk, 64 << 10), 1);
  EXPECT_EQ(byte(&disk, (72 << 10) - 1), 1);
  EXPECT_EQ(byte(&disk, 72 << 10), 0);
}

TEST_F(DiskImage, AZeroedPartIsGivenBack) {
  Disk disk(path_);
  put(&disk, 0, kMiB, 1);
  const std::uint64_t before = allocated();
  ASSERT_TRUE(disk.zero(512, 512 << 10));
  EXPECT_EQ(byte(&disk, 511), 1);
  for (std::uint64_t i = 512; i < 512 + (512 << 10); i += 128) ASSERT_EQ(byte(&disk, i), 0) << i;
  EXPECT_EQ(byte(&disk, 512 + (512 << 10)), 1);
  EXPECT_LE(allocated(), before - (500 << 10));
}

TEST_F(DiskImage, WhatTheHostCannotReadOrKeepIsAnError) {
  Disk disk(path_);
  const FileSizeLimit limit(kMiB / 2);
  std::memset(disk.place(kMiB / 2, 512), 1, 512);
  EXPECT_FALSE(disk.store(kMiB / 2, 512));
  put(&disk, kMiB / 2 - 512, 512, 1);
  ASSERT_EQ(ftruncate(file_, 4096), 0);
  EXPECT_EQ(disk.load(8192, 512), nullptr);
  EXPECT_NE(disk.load(0, 512), nullptr);
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
