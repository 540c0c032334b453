// SPDX-License-Identifier: GPL-2.0-only
// The published values of the register map (version 1) and of the socket
// protocol (version 1), written out: a changed table must not pass unnoticed.
#include <gtest/gtest.h>

#include <vector>

#include "core/registers.hh"
#include "core/wire.hh"
#include "generated/machine_registers.h"
#include "model/presets.hh"

namespace drfq {
namespace {

TEST(Interface, RegistersAreWhereVersion1PutsThem) {
  EXPECT_EQ(mmio::kIdValue, 0x434d2d5146524400u);
  EXPECT_EQ(mmio::kVersionValue, 1u);
  const std::vector<std::uint64_t> offsets = {
      mmio::kId,          mmio::kVersion,  mmio::kPids,      mmio::kCores,   mmio::kTraffic,
      mmio::kTrafficPeek, mmio::kVtimePid, mmio::kVtimeCore, mmio::kPidCore, mmio::kBytes};
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 8, 16, 24, 0x10000, 0x20000, 0x30000, 0x40000,
                                                 0x48000, 0x50000}));
  EXPECT_EQ(kPids, 8192u);
  EXPECT_EQ(kCoresMax, 4096u);
  EXPECT_EQ(static_cast<int>(Access::bad_address), 1);
  EXPECT_EQ(static_cast<int>(Access::read_only), 2);
  EXPECT_EQ(static_cast<int>(Access::bad_value), 3);
}

TEST(Interface, TheVirtualMachineShowsThemInAnIvshmemDevice) {
  EXPECT_EQ(MACHINE_CONTROLLER_VENDOR, 0x1af4u);
  EXPECT_EQ(MACHINE_CONTROLLER_DEVICE, 0x1110u);
  EXPECT_EQ(MACHINE_CONTROLLER_BAR, 2);
  EXPECT_EQ(MACHINE_CONTROLLER_BYTES, 0x80000u);
}

TEST(Interface, TheMailboxIsWhereItsFirstUsersFoundIt) {
  EXPECT_EQ(mailbox::kFeatures, 0x20u);
  EXPECT_EQ(mailbox::kFeatureBit, 0u);
  EXPECT_EQ(mailbox::kAddress, mmio::kBytes);
  EXPECT_EQ(mailbox::kPageBytes, 4096u);
  EXPECT_EQ(mailbox::kLabelBytes, 64u);
  EXPECT_EQ(mailbox::kPages * mailbox::kPageBytes / mailbox::kLabelBytes, kCoresMax);
  EXPECT_EQ(mailbox::kLabelValid, 0u);
  EXPECT_EQ(mailbox::kLabelPid, 8u);
  EXPECT_EQ(mailbox::kLabelVtime, 16u);
}

TEST(Interface, ProtocolNumbersAreThoseOfVersion1) {
  EXPECT_EQ(wire::kVersion, 1u);
  EXPECT_EQ(wire::kFrameMax, 65536u);
  EXPECT_EQ(wire::kReply, 0x8000);
  EXPECT_EQ(wire::kEvent, 0x4000);
  using wire::Op;
  unsigned next = 1;
  for (Op op : {Op::hello, Op::read, Op::write, Op::peek, Op::batch, Op::advance, Op::demand,
                Op::stats, Op::subscribe})
    EXPECT_EQ(static_cast<unsigned>(op), next++);
  using wire::Status;
  next = 0;
  for (Status s : {Status::ok, Status::bad_address, Status::read_only, Status::bad_value,
                   Status::malformed, Status::bad_version, Status::bad_op, Status::not_greeted,
                   Status::not_writer, Status::writer_taken, Status::wrong_mode})
    EXPECT_EQ(static_cast<unsigned>(s), next++);
  EXPECT_EQ(static_cast<int>(wire::Role::writer), 1);
  EXPECT_EQ(static_cast<int>(wire::Feature::lock_step), 0);
  EXPECT_EQ(static_cast<int>(wire::Feature::frfcfs), 1);
  EXPECT_EQ(wire::kAdvancePsMax, 10000000000000u);
  EXPECT_EQ(wire::kSubscribePsMin, 100000000u);
  EXPECT_EQ(wire::kSubscribePsMax, 10000000000000u);
  EXPECT_EQ(wire::kDemandOutstandingLinesMax, 128u);
  EXPECT_EQ(wire::kDemandWritePercentMax, 100u);
  EXPECT_EQ(wire::kDemandBytesPerSMax, 1000000000000u);
}

template <std::size_t Bytes, class Record>
std::string hex(const Record &record) {
  unsigned char bytes[Bytes];
  wire::encode(record, bytes);
  std::string out;
  for (unsigned char b : bytes) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

TEST(Interface, RecordsHaveTheBytesOfVersion1) {
  wire::Header h;
  h.op = 0x8001;
  h.status = 0x0203;
  h.tag = 0x04050607;
  h.a = 0x1112131415161718;
  h.b = 0x2122232425262728;
  h.time_ps = 0x3132333435363738;
  EXPECT_EQ(hex<wire::kHeaderBytes>(h),
            "28000000"
            "0180"
            "0302"
            "07060504"
            "00000000"
            "1817161514131211"
            "2827262524232221"
            "3837363534333231");
  EXPECT_EQ(hex<wire::kBatchRecordBytes>(wire::BatchRecord{2, 3, 0, 0x40008, 5}),
            "0200"
            "0300"
            "00000000"
            "0800040000000000"
            "0500000000000000");
  EXPECT_EQ(hex<wire::kDemandRecordBytes>(wire::DemandRecord{1, 2, 3, 4, 5, 6}),
            "01000000"
            "02000000"
            "0300000000000000"
            "04000000"
            "05000000"
            "0600000000000000");
}

TEST(Interface, PresetsHaveTheTimingsOfTheirStandards) {
  const Timing lpddr2 = lpddr2_1066_x32(), ddr4 = ddr4_2400(), ddr5 = ddr5_4800();
  EXPECT_EQ(dram_preset_names(), "lpddr2-1066-x32, ddr4-2400, ddr5-4800");
  EXPECT_DOUBLE_EQ(lpddr2.bytes_per_ns(), 32 / 7.5);
  EXPECT_DOUBLE_EQ(ddr4.bytes_per_ns(), 64 / 3.332);
  EXPECT_DOUBLE_EQ(ddr5.bytes_per_ns(), 64 / 3.328);
  for (const Timing &t : dram_presets()) EXPECT_EQ(check(t), "") << t.name;
  EXPECT_EQ(lpddr2.ras, 42000u);
  EXPECT_EQ(lpddr2.rfc, 130000u);
  // The sum of all times of each preset: a changed value must not pass unnoticed.
  const auto sum = [](const Timing &timing) {
    Ps total = timing.ck;
    for (const TimingField &f : kTimingFields) total += timing.*f.field;
    return total;
  };
  EXPECT_EQ(sum(lpddr2), 4295132u);
  EXPECT_EQ(sum(ddr4), 8333705u);
  EXPECT_EQ(sum(ddr5), 4403944u);
  EXPECT_EQ(ddr4.ras, 32000u);
  EXPECT_EQ(ddr4.rfc, 350000u);
  EXPECT_EQ(ddr5.ras, 32000u);
  EXPECT_EQ(ddr5.rfc, 295000u);
}

}  // namespace
}  // namespace drfq
