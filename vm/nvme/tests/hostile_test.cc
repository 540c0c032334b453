// SPDX-License-Identifier: GPL-2.0-only
// What a hostile driver does to queues, doorbells and addresses, in fixed cases.
#include <gtest/gtest.h>

#include "test_driver.hh"

namespace drfq::nvme {
namespace {

using D = TestDriver;

/// The device with I/O queue 1, which has kEntries entries.
class NvmeHostileTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSq2 = 0x5000, kCq2 = 0x6000,
                                 kLastPage = TestPort::kBytes - 0x1000;
  static constexpr std::uint64_t kDoorbell1 = reg::kEnd + 8, kDoorbell2 = reg::kEnd + 16;

  void SetUp() override {
    d.enable();
    ASSERT_TRUE(d.create_io_queue());
  }
  Status create_cq(unsigned id, unsigned entries, std::uint64_t base) {
    return d.run(0, D::admin(Admin::create_cq, (entries - 1) << 16 | id, id << 16 | 3, base));
  }
  Status create_sq(unsigned id, unsigned entries, unsigned cq, std::uint64_t base) {
    return d.run(0, D::admin(Admin::create_sq, (entries - 1) << 16 | id, cq << 16 | 1, base));
  }
  /// Writes flushes to a queue's memory.
  void fill(std::uint64_t sq, unsigned commands) {
    for (unsigned i = 0; i < commands; i++) {
      Sqe c = D::io(Io::flush, 0, 1, 0);
      c.cid = static_cast<std::uint16_t>(i);
      std::memcpy(&d.port.memory[sq + i * sizeof c], &c, sizeof c);
    }
  }
  /// Queues 1 and 2, full of flushes, complete to a queue that has room for one.
  void share_small_completion_queue() {
    ASSERT_EQ(create_cq(2, 2, kCq2), Status::ok);
    ASSERT_EQ(d.run(0, D::admin(Admin::delete_sq, 1)), Status::ok);
    ASSERT_EQ(create_sq(1, 8, 2, D::kIoSq), Status::ok);
    ASSERT_EQ(create_sq(2, 8, 2, kSq2), Status::ok);
    fill(D::kIoSq, 8);
    fill(kSq2, 8);
  }
  void finish_all() {
    while (!d.port.started.empty()) d.finish();
  }
  /// An admin command's end, while others are in transfer.
  Status run_admin_first(const Sqe &c) {
    d.submit(0, c);
    const TestPort::Started own = d.port.started.back();
    d.port.started.pop_back();
    d.device.finished(own.id, d.port);
    return static_cast<Status>((d.completion(0).status >> 1) & 0x7ff);
  }
  bool still_works() {
    finish_all();
    d.store<std::uint32_t>(reg::kCc, 0);
    d.enable();
    return d.create_io_queue() && d.run(1, D::io(Io::read, 0, 8, D::kData)) == Status::ok;
  }
  TestDriver d;
};

TEST_F(NvmeHostileTest, DoorbellsOfQueuesThatDoNotExistDoNothing) {
  fill(kSq2, 8);
  for (std::uint64_t offset = kDoorbell2; offset < Controller::kRegisterBytes; offset += 4)
    d.store<std::uint32_t>(offset, 1);
  EXPECT_EQ(d.device.commands(), 0u);
  ASSERT_EQ(d.run(0, D::admin(Admin::delete_sq, 1)), Status::ok);
  d.store<std::uint32_t>(kDoorbell1, 1);
  EXPECT_EQ(d.device.commands(), 0u) << "it was deleted";
  d.store<std::uint32_t>(reg::kCc, 0);
  d.store<std::uint32_t>(reg::kEnd, 1);
  EXPECT_EQ(d.device.commands(), 0u) << "the device is not enabled";
  EXPECT_TRUE(still_works());
}

TEST_F(NvmeHostileTest, DoorbellsOfOtherSizesDoNothing) {
  fill(D::kIoSq, 8);
  d.store<std::uint8_t>(kDoorbell1, 1);
  d.store<std::uint16_t>(kDoorbell1, 1);
  d.store<std::uint64_t>(kDoorbell1, 1);
  d.store<std::uint32_t>(kDoorbell1 + 1, 1);
  d.store<std::uint32_t>(kDoorbell1, D::kEntries);
  d.store<std::uint32_t>(kDoorbell1, 0x10001);
  EXPECT_EQ(d.device.commands(), 0u);
}

TEST_F(NvmeHostileTest, AdminQueuesOfOneEntryAreFatal) {
  for (const std::uint32_t aqa : {0u, 7u, 7u << 16}) {
    d.store<std::uint32_t>(reg::kCc, 0);
    d.store<std::uint32_t>(reg::kAqa, aqa);
    d.store<std::uint32_t>(reg::kCc, 1);
    EXPECT_EQ(d.load(reg::kCsts), kFatal) << aqa;
    d.store<std::uint32_t>(reg::kEnd, 1);
    EXPECT_EQ(d.device.commands(), 0u);
  }
  EXPECT_TRUE(still_works());
}

TEST_F(NvmeHostileTest, QueuesOfOneEntryAreRefusedAndThoseOfTwoWork) {
  EXPECT_EQ(create_cq(2, 1, kCq2), Status::queue_size_invalid);
  ASSERT_EQ(create_cq(2, 2, kCq2), Status::ok);
  EXPECT_EQ(create_sq(2, 1, 2, kSq2), Status::queue_size_invalid);
  ASSERT_EQ(create_sq(2, 2, 2, kSq2), Status::ok);
  fill(kSq2, 2);
  for (std::uint32_t i = 1; i <= 6; i++) {
    d.store<std::uint32_t>(kDoorbell2, i % 2);
    ASSERT_EQ(d.port.started.size(), 1u);
    EXPECT_EQ(d.finish().vector, 2u);
    d.store<std::uint32_t>(kDoorbell2 + 4, i % 2);
  }
}

TEST_F(NvmeHostileTest, CommandsOfADeletedQueueMoveNothing) {
  d.submit(1, D::io(Io::read, 0, 8, D::kData));
  *d.disk.at(0) = 1;
  ASSERT_EQ(run_admin_first(D::admin(Admin::delete_sq, 1)), Status::ok);
  const std::vector<std::uint8_t> before = d.port.memory;
  const Controller::Finished done = d.finish();
  EXPECT_FALSE(done.vector.has_value());
  EXPECT_FALSE(done.record.has_value());
  EXPECT_EQ(d.port.memory, before);
  EXPECT_EQ(d.device.commands(), 0u);
}

TEST_F(NvmeHostileTest, QueuesThatAreDeletedAgainAndAgainDoNotPileUpTransfers) {
  fill(kSq2, 8);
  for (unsigned i = 0; i < 50; i++) {
    ASSERT_EQ(run_admin_first(D::admin(Admin::create_sq, 7u << 16 | 2, 1u << 16 | 1, kSq2)),
              Status::ok);
    d.store<std::uint32_t>(kDoorbell2, 7);
    ASSERT_LE(d.port.started.size(), 8u);
    ASSERT_EQ(run_admin_first(D::admin(Admin::delete_sq, 2)), Status::ok);
  }
  ASSERT_EQ(run_admin_first(D::admin(Admin::create_sq, 7u << 16 | 2, 1u << 16 | 1, kSq2)),
            Status::ok);
  d.store<std::uint32_t>(kDoorbell2, 7);
  unsigned completions = 0;
  while (!d.port.started.empty()) completions += d.finish().record.has_value() ? 1 : 0;
  EXPECT_EQ(completions, 7u) << "commands wait for the transfers of the former queue, and start";
}

TEST_F(NvmeHostileTest, CompletionsOfADeletedQueueDoNotTakeTheRoomOfOthers) {
  ASSERT_NO_FATAL_FAILURE(share_small_completion_queue());
  // The first completion takes the only room. The others wait, those of queue 1 first.
  d.store<std::uint32_t>(kDoorbell2, 1);
  d.store<std::uint32_t>(kDoorbell1, 2);
  d.store<std::uint32_t>(kDoorbell2, 2);
  finish_all();
  ASSERT_EQ(d.device.commands(), 3u);
  ASSERT_EQ(run_admin_first(D::admin(Admin::delete_sq, 1)), Status::ok);
  d.store<std::uint32_t>(kDoorbell2 + 4, 1);
  finish_all();
  EXPECT_EQ(d.device.commands(), 0u) << "the driver waits for it, and will ring no more";
}

TEST_F(NvmeHostileTest, RoomForACommandThatIsAbortedMeanwhileGoesToTheNext) {
  ASSERT_NO_FATAL_FAILURE(share_small_completion_queue());
  d.store<std::uint32_t>(kDoorbell2, 1);
  d.store<std::uint32_t>(kDoorbell1, 1);
  d.store<std::uint32_t>(kDoorbell2, 2);
  finish_all();
  d.store<std::uint32_t>(kDoorbell2 + 4, 1);
  ASSERT_EQ(d.port.started.size(), 1u) << "that of queue 1 is on its way again";
  ASSERT_EQ(run_admin_first(D::admin(Admin::delete_sq, 1)), Status::ok);
  finish_all();
  EXPECT_EQ(d.device.commands(), 0u);
}

/// Queue 2, of which the first command can be read, but not the second: it crosses the end of
/// memory.
class NvmeBrokenQueueTest : public NvmeHostileTest {
 protected:
  void SetUp() override {
    NvmeHostileTest::SetUp();
    ASSERT_EQ(create_cq(2, 2, kCq2), Status::ok);
    ASSERT_EQ(create_sq(2, 128, 2, kLastPage), Status::ok);
    fill(kLastPage, 64);
    d.store<std::uint32_t>(kDoorbell2, 63);
    finish_all();
    d.store<std::uint32_t>(kDoorbell2, 66);
    ASSERT_EQ(d.load(reg::kCsts) & kFatal, kFatal);
  }
};

TEST_F(NvmeBrokenQueueTest, ItKeepsItsCompletionQueueUntilItIsDeleted) {
  EXPECT_EQ(run_admin_first(D::admin(Admin::delete_cq, 2)), Status::queue_deletion_invalid);
  finish_all();
  EXPECT_EQ(run_admin_first(D::admin(Admin::delete_sq, 2)), Status::ok);
  EXPECT_EQ(run_admin_first(D::admin(Admin::delete_cq, 2)), Status::ok);
  finish_all();
  EXPECT_TRUE(still_works());
}

TEST_F(NvmeBrokenQueueTest, AQueueInItsPlaceWorks) {
  const Sqe create = D::admin(Admin::create_sq, 7u << 16 | 2, 1u << 16 | 1, kSq2);
  EXPECT_EQ(run_admin_first(create), Status::queue_id_invalid);
  ASSERT_EQ(run_admin_first(D::admin(Admin::delete_sq, 2)), Status::ok);
  ASSERT_EQ(run_admin_first(create), Status::ok);
  finish_all();
  fill(kSq2, 8);
  for (std::uint32_t i = 1; i < 20; i++) {
    d.store<std::uint32_t>(kDoorbell2, i % 8);
    ASSERT_EQ(d.port.started.size(), 1u) << i;
    ASSERT_TRUE(d.finish().record.has_value());
    d.completion(1);
  }
}

TEST_F(NvmeHostileTest, AddressesThatChangeInUseDoNotMoveTheTransfer) {
  const std::uint64_t pages[] = {D::kData + 0x1000, D::kData + 0x2000}, outside = ~0xfffull;
  std::memcpy(&d.port.memory[D::kList], pages, sizeof pages);
  for (std::uint64_t at = 0; at < 0x3000; at++) *d.disk.at(at) = 0x5a;
  d.submit(1, D::io(Io::read, 0, 24, D::kData, D::kList));
  std::memcpy(&d.port.memory[D::kList], &outside, sizeof outside);
  d.port.memory[D::kIoSq] = 0x77;  // and the command itself
  EXPECT_EQ(d.finish().record->bytes, 0x3000u);
  EXPECT_EQ(d.completion(1).status, 1);
  EXPECT_EQ(std::memcmp(&d.port.memory[D::kData], d.disk.at(0), 0x3000), 0);
}

TEST_F(NvmeHostileTest, AddressesThatWrapAroundAreRefused) {
  EXPECT_EQ(d.run(1, D::io(Io::read, 0, 16, ~0xfffull, 0)), Status::data_transfer_error);
  const std::vector<std::uint8_t> before(&d.port.memory[0], &d.port.memory[0x1000]);
  EXPECT_EQ(before, std::vector<std::uint8_t>(0x1000)) << "page 0 follows the last one";
  EXPECT_EQ(d.run(1, D::io(Io::write, 0, 64, D::kData, ~0xfffull)), Status::data_transfer_error);
}

TEST_F(NvmeHostileTest, ACompletionQueueOutsideMemoryIsFatalUntilAReset) {
  ASSERT_EQ(create_cq(2, 2, std::uint64_t{1} << 50), Status::ok);
  ASSERT_EQ(create_sq(2, 8, 2, kSq2), Status::ok);
  fill(kSq2, 8);
  d.store<std::uint32_t>(kDoorbell2, 3);
  finish_all();
  EXPECT_EQ(d.load(reg::kCsts) & kFatal, kFatal);
  EXPECT_TRUE(still_works());
}

TEST_F(NvmeHostileTest, AResetForgetsCommandsThatWaitForRoom) {
  ASSERT_EQ(create_cq(2, 2, kCq2), Status::ok);
  ASSERT_EQ(create_sq(2, 8, 2, kSq2), Status::ok);
  fill(kSq2, 8);
  d.store<std::uint32_t>(kDoorbell2, 7);
  finish_all();
  EXPECT_EQ(d.device.commands(), 6u);
  d.store<std::uint32_t>(reg::kCc, 0);
  EXPECT_EQ(d.device.commands(), 0u);
  EXPECT_TRUE(still_works());
}

TEST_F(NvmeHostileTest, AShutdownWithCommandsInFlightLosesNone) {
  d.submit(1, D::io(Io::flush, 0, 1, 0));
  d.store<std::uint32_t>(reg::kCc, 1u << 14 | 1);
  EXPECT_EQ(d.load(reg::kCsts) & kShutdownDone, kShutdownDone);
  EXPECT_TRUE(d.finish().record.has_value());
  EXPECT_TRUE(still_works());
}

}  // namespace
}  // namespace drfq::nvme
