// SPDX-License-Identifier: GPL-2.0-only
// The NVMe controller against a good driver and a hostile one.
#include "nvme/controller.hh"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <numeric>
#include <random>
#include <string>

#include "file_size_limit.hh"
#include "test_driver.hh"

namespace drfq::nvme {
namespace {

using D = TestDriver;

class NvmeTest : public testing::Test {
 protected:
  void SetUp() override {
    d.enable();
    ASSERT_TRUE(d.create_io_queue());
  }
  /// Fills a part of the disk with bytes that differ between places.
  void fill_disk(std::uint64_t offset, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i++)
      *d.disk.at(offset + i) = static_cast<std::uint8_t>(i * 7 + i / 251);
  }
  TestDriver d;
};

TEST(NvmeRegisters, TheDeviceReadsAsAbsentUntilItAppears) {
  TestDriver d;
  EXPECT_EQ(d.load(reg::kCsts), ~0u);
  EXPECT_EQ(d.load(reg::kCap), 0u);
  d.store<std::uint32_t>(reg::kCc, 1);
  EXPECT_EQ(d.load(reg::kCsts), ~0u);
  d.device.appear();
  EXPECT_EQ(d.load(reg::kCsts), 0u);
  EXPECT_EQ(d.load(reg::kVs), kVersion);
}

TEST(NvmeRegisters, ReadOnlyOnesKeepTheirValues) {
  TestDriver d;
  d.enable();
  const std::uint32_t cap = d.load(reg::kCap);
  for (const std::uint64_t offset : {reg::kCap, reg::kVs, reg::kCsts, reg::kNssr})
    d.store(offset, 0x55aa55aau);
  EXPECT_EQ(d.load(reg::kCap), cap);
  EXPECT_EQ(d.load(reg::kVs), kVersion);
  EXPECT_EQ(d.load(reg::kCsts), kReady);
}

TEST(NvmeRegisters, ABadConfigurationIsFatalUntilAReset) {
  TestDriver d;
  d.device.appear();
  d.store<std::uint32_t>(reg::kAqa, 0);  // queues of one entry
  d.store<std::uint32_t>(reg::kCc, 1);
  EXPECT_EQ(d.load(reg::kCsts), kFatal);
  d.store<std::uint32_t>(reg::kCc, 0);
  EXPECT_EQ(d.load(reg::kCsts), 0u);
  d.enable();
  EXPECT_EQ(d.load(reg::kCsts), kReady);
}

TEST_F(NvmeTest, IdentifyTellsSizeAndLimits) {
  ASSERT_EQ(d.run(0, D::admin(Admin::identify, 1, 0, D::kData)), Status::ok);
  EXPECT_EQ(d.port.memory[D::kData + 77], kMdts);
  Sqe c = D::admin(Admin::identify, 0, 0, D::kData);
  c.nsid = 1;
  ASSERT_EQ(d.run(0, c), Status::ok);
  std::uint64_t blocks;
  std::memcpy(&blocks, &d.port.memory[D::kData], sizeof blocks);
  EXPECT_EQ(blocks, d.disk.blocks());
  EXPECT_EQ(d.run(0, D::admin(Admin::identify, 0x99, 0, D::kData)), Status::invalid_field);
}

TEST_F(NvmeTest, IdentifyKnowsOneNamespace) {
  for (const std::uint32_t nsid : {0u, 1u, 2u, 0xfffffffdu, 0xfffffffeu, 0xffffffffu}) {
    const auto identify = [&](std::uint32_t cns) {
      Sqe c = D::admin(Admin::identify, cns, 0, D::kData);
      c.nsid = nsid;
      return d.run(0, c);
    };
    EXPECT_EQ(identify(0), nsid == 1 ? Status::ok : Status::invalid_namespace) << nsid;
    EXPECT_EQ(identify(2), nsid < 0xfffffffe ? Status::ok : Status::invalid_namespace) << nsid;
  }
}

TEST_F(NvmeTest, ALogIsReadFromItsBeginning) {
  Sqe c = D::admin(Admin::get_log_page, 127u << 16 | 2, 0, D::kData);
  EXPECT_EQ(d.run(0, c), Status::ok);
  c.cdw12 = 4;
  EXPECT_EQ(d.run(0, c), Status::invalid_field);
}

TEST_F(NvmeTest, AFeatureThatStaysTheSameCannotBeSet) {
  constexpr std::uint32_t kArbitration = 1, kQueues = 7;
  Sqe c = D::admin(Admin::set_features, kArbitration, 3);
  EXPECT_EQ(d.run(0, c), Status::feature_not_changeable);
  c.cdw11 = 0;
  EXPECT_EQ(d.run(0, c), Status::ok);
  EXPECT_EQ(d.run(0, D::admin(Admin::get_features, kArbitration, 3)), Status::ok);
  EXPECT_EQ(d.run(0, D::admin(Admin::set_features, kQueues, 0x70007)), Status::ok);
}

TEST_F(NvmeTest, AReadMovesTheDataWhenItsTransferEnds) {
  fill_disk(3 * kBlockBytes, 4096);
  d.submit(1, D::io(Io::read, 3, 8, D::kData));
  ASSERT_EQ(d.port.started.size(), 1u);
  EXPECT_EQ(d.port.started[0].dir, Dir::write);
  EXPECT_EQ(d.port.started[0].vector, 1u);
  EXPECT_EQ(d.port.memory[D::kData + 1], 0) << "the data must not arrive before its time";
  const Controller::Finished done = d.finish();
  EXPECT_EQ(done.vector, 1u);
  ASSERT_TRUE(done.record.has_value());
  EXPECT_EQ(done.record->bytes, 4096u);
  EXPECT_EQ(d.completion(1).status, 1) << "success, phase 1";
  EXPECT_EQ(std::memcmp(&d.port.memory[D::kData], d.disk.at(3 * kBlockBytes), 4096), 0);
}

TEST_F(NvmeTest, AListOfPagesThatBeginsAtAnOffsetMovesAllData) {
  constexpr std::uint64_t kOffset = 0x234, kBytes = 64 * kBlockBytes;
  std::iota(&d.port.memory[D::kData + kOffset], &d.port.memory[D::kData + 0x1000], std::uint8_t{1});
  for (std::uint64_t i = 0; i < 8; i++) {
    const std::uint64_t page = D::kData + 0x10000 - i * 0x1000;  // in the reverse order
    std::memcpy(&d.port.memory[D::kList + 8 * i], &page, sizeof page);
    std::fill_n(&d.port.memory[page], 0x1000, static_cast<std::uint8_t>(0x40 + i));
  }
  ASSERT_EQ(d.run(1, D::io(Io::write, 0, 64, D::kData + kOffset, D::kList)), Status::ok);
  EXPECT_EQ(*d.disk.at(0), 1);
  for (std::uint64_t i = 0; i < 8; i++)
    EXPECT_EQ(*d.disk.at(0x1000 - kOffset + i * 0x1000), 0x40 + i);
  EXPECT_EQ(*d.disk.at(kBytes - 1), 0x47);
  EXPECT_EQ(*d.disk.at(kBytes), 0);
}

TEST_F(NvmeTest, TheLastEntryOfAListPageLeadsToTheNextPage) {
  const std::uint64_t list = D::kList + 0x1000 - 8, next = D::kList + 0x2000;
  std::memcpy(&d.port.memory[list], &next, sizeof next);
  for (std::uint64_t i = 0; i < 3; i++) {
    const std::uint64_t page = D::kData + 2 * (i + 1) * 0x1000;
    std::memcpy(&d.port.memory[next + 8 * i], &page, sizeof page);
  }
  fill_disk(0, 4 * 0x1000);
  ASSERT_EQ(d.run(1, D::io(Io::read, 0, 32, D::kData, list)), Status::ok);
  for (std::uint64_t i = 0; i < 4; i++)
    EXPECT_EQ(std::memcmp(&d.port.memory[D::kData + 2 * i * 0x1000], d.disk.at(i * 0x1000), 0x1000),
              0);
}

TEST_F(NvmeTest, BadAddressesGiveAnErrorStatus) {
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 8, D::kData + 1)), Status::prp_offset_invalid);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 16, D::kData, D::kData + 8)), Status::prp_offset_invalid);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 8, ~std::uint64_t{0xfff})), Status::data_transfer_error);
  EXPECT_EQ(d.run(1, D::io(Io::write, 0, 8, std::uint64_t{1} << 40)), Status::data_transfer_error);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 64, D::kData, TestPort::kBytes)),
            Status::data_transfer_error);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 8, D::kData)), Status::ok) << "the queue still works";
}

TEST_F(NvmeTest, AListThatPointsToItselfEnds) {
  const std::uint64_t list = D::kList + 0x1000 - 8, self = D::kList;
  for (std::uint64_t at = D::kList; at < D::kList + 0x1000; at += 8)
    std::memcpy(&d.port.memory[at], &self, sizeof self);
  const std::uint64_t before = d.port.reads;
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 256, D::kData, list)), Status::ok);
  EXPECT_LE(d.port.reads - before, 2 * kMaxTransferPages);
}

TEST_F(NvmeTest, AnAreaOutsideTheDiskIsRefused) {
  const std::uint64_t blocks = d.disk.blocks();
  EXPECT_EQ(d.run(1, D::io(Io::read, blocks, 1, D::kData)), Status::lba_out_of_range);
  EXPECT_EQ(d.run(1, D::io(Io::read, blocks - 7, 8, D::kData)), Status::lba_out_of_range);
  EXPECT_EQ(d.run(1, D::io(Io::write_zeroes, ~std::uint64_t{0}, 8, 0)), Status::lba_out_of_range);
  EXPECT_EQ(d.run(1, D::io(Io::read, blocks - 8, 8, D::kData)), Status::ok);
}

TEST(NvmeImage, WhatTheHostCannotReadOrKeepGivesAnErrorStatus) {
  std::string path = testing::TempDir() + "controller_test.XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_EQ(ftruncate(file, 1 << 20), 0);
  TestDriver d(path);
  unlink(path.c_str());
  d.enable();
  ASSERT_TRUE(d.create_io_queue());
  std::fill_n(&d.port.memory[D::kData], 4096, std::uint8_t{7});
  EXPECT_EQ(d.run(1, D::io(Io::write, 0, 8, D::kData)), Status::ok);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 8, D::kList)), Status::ok);
  EXPECT_EQ(std::memcmp(&d.port.memory[D::kData], &d.port.memory[D::kList], 4096), 0);
  {
    const FileSizeLimit limit(1 << 19);
    EXPECT_EQ(d.run(1, D::io(Io::write, 1024, 8, D::kData)), Status::write_fault);
  }
  ASSERT_EQ(ftruncate(file, 0), 0);
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 8, D::kData)), Status::unrecovered_read);
  EXPECT_EQ(d.run(1, D::io(Io::flush, 0, 1, 0)), Status::ok) << "the queue still works";
  close(file);
}

TEST_F(NvmeTest, MoreThanTheLargestTransferIsRefused) {
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 257, D::kData, D::kList)), Status::invalid_field);
}

TEST_F(NvmeTest, UnknownCommandsAreRefused) {
  EXPECT_EQ(d.run(1, D::io(static_cast<Io>(0x77), 0, 1, D::kData)), Status::invalid_opcode);
  EXPECT_EQ(d.run(0, D::admin(static_cast<Admin>(0x77))), Status::invalid_opcode);
  Sqe c = D::io(Io::read, 0, 1, D::kData);
  c.nsid = 2;
  EXPECT_EQ(d.run(1, c), Status::invalid_namespace);
  c = D::io(Io::read, 0, 1, D::kData);
  c.flags = 0x40;  // an SGL
  EXPECT_EQ(d.run(1, c), Status::invalid_field);
}

TEST_F(NvmeTest, QueuesThatCannotBeAreRefused) {
  const std::uint32_t good = 7u << 16 | 2;
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, 7u << 16 | 1, 1, D::kData)),
            Status::queue_id_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, 7u << 16 | 3, 1, D::kData)),
            Status::queue_id_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, 7u << 16, 1, D::kData)), Status::queue_id_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, 2, 1, D::kData)), Status::queue_size_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, 0xffffu << 16 | 2, 1, D::kData)),
            Status::queue_size_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, good, 9u << 16 | 1, D::kData)),
            Status::vector_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_cq, good, 0, D::kData)), Status::invalid_field);
  EXPECT_EQ(d.run(0, D::admin(Admin::create_sq, good, 2u << 16 | 1, D::kData)), Status::cq_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::delete_cq, 1)), Status::queue_deletion_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::delete_sq, 0)), Status::queue_id_invalid);
  EXPECT_EQ(d.run(0, D::admin(Admin::delete_sq, 1)), Status::ok);
  EXPECT_EQ(d.run(0, D::admin(Admin::delete_cq, 1)), Status::ok);
}

TEST_F(NvmeTest, BadDoorbellsDoNothing) {
  d.store<std::uint32_t>(reg::kEnd + 8, D::kEntries);  // beyond the queue
  d.store<std::uint32_t>(reg::kEnd + 8 * 2, 1);        // a queue that does not exist
  d.store<std::uint32_t>(reg::kEnd + 8 * 100, 1);      // beyond all queues
  d.store<std::uint32_t>(reg::kEnd + 12, ~0u);         // completions
  d.store<std::uint16_t>(reg::kEnd + 8, 1);            // half a doorbell
  EXPECT_TRUE(d.port.started.empty());
  EXPECT_EQ(d.device.commands(), 0u);
  EXPECT_EQ(d.run(1, D::io(Io::flush, 0, 1, 0)), Status::ok);
}

TEST_F(NvmeTest, ADriverThatNeverLooksAtCompletionsLosesNone) {
  // Its queue of completions takes all but one of its entries.
  for (unsigned i = 0; i < 3 * D::kEntries; i++) {
    Sqe c = D::io(Io::flush, 0, 1, 0);
    c.cid = static_cast<std::uint16_t>(i);
    d.submit(1, c);
    if (!d.port.started.empty()) d.finish();
    EXPECT_LE(d.device.commands(), D::kEntries);
  }
  for (std::uint16_t seen = 0; seen < D::kEntries - 1; seen++) EXPECT_EQ(d.completion(1).cid, seen);
  while (!d.port.started.empty()) d.finish();
  EXPECT_EQ(d.completion(1).cid, D::kEntries - 1) << "it waited for room";
}

TEST_F(NvmeTest, AResetForgetsCommandsInFlight) {
  d.submit(1, D::io(Io::read, 0, 8, D::kData));
  const std::uint64_t old = d.port.started.front().id;
  d.store<std::uint32_t>(reg::kCc, 0);
  EXPECT_EQ(d.port.cancelled, 1u);
  EXPECT_EQ(d.device.commands(), 0u);
  d.enable();
  ASSERT_TRUE(d.create_io_queue());
  const std::vector<std::uint8_t> before = d.port.memory;
  EXPECT_FALSE(d.device.finished(old, d.port).vector.has_value());
  EXPECT_EQ(d.port.memory, before) << "a command of before the reset must move nothing";
}

TEST_F(NvmeTest, AQueueInMemoryThatDoesNotExistIsFatal) {
  const std::uint32_t size = 7u << 16 | 2;
  ASSERT_EQ(d.run(0, D::admin(Admin::create_cq, size, 2u << 16 | 3, D::kIoCq)), Status::ok);
  ASSERT_EQ(d.run(0, D::admin(Admin::create_sq, size, 2u << 16 | 1, std::uint64_t{1} << 50)),
            Status::ok);
  d.store<std::uint32_t>(reg::kEnd + 16, 1);
  EXPECT_EQ(d.load(reg::kCsts) & kFatal, kFatal);
}

TEST_F(NvmeTest, AsyncEventRequestsAreKeptUpToTheirLimit) {
  for (unsigned i = 0; i < kMaxAsyncEvents; i++) d.submit(0, D::admin(Admin::async_event));
  EXPECT_TRUE(d.port.started.empty());
  EXPECT_EQ(d.run(0, D::admin(Admin::async_event)), Status::async_limit);
}

/// Random stores, commands and addresses. The sanitizers judge; the device must stay bounded.
TEST(NvmeHostile, RandomStoresNeitherCrashNorGrow) {
  for (unsigned seed = 0; seed < 200; seed++) {
    std::mt19937 random(seed);
    TestDriver d;
    d.enable();
    if (seed % 2 == 0) d.create_io_queue();
    for (unsigned i = 0; i < 400; i++) {
      const std::uint32_t r = random();
      // The queues' memory holds small numbers now and then, so that some commands are valid.
      d.port.memory[0x1000 + random() % 0x8000] =
          static_cast<std::uint8_t>(r % 3 ? r >> 8 & 15 : r >> 8);
      const std::uint64_t value = random() % 4 ? random() % 16 : random();
      if (r % 7 == 0)
        d.store<std::uint32_t>(random() % 0x40 / 4 * 4, static_cast<std::uint32_t>(value));
      else
        d.store<std::uint32_t>(reg::kEnd + random() % 8 * 4, static_cast<std::uint32_t>(value));
      if (r % 3 == 0 && !d.port.started.empty()) d.finish();
      ASSERT_LE(d.device.commands(), 3 * kMaxEntries * 4);
      ASSERT_LE(d.port.started.size(), 4 * 3 * kMaxEntries);
    }
  }
}

}  // namespace
}  // namespace drfq::nvme
