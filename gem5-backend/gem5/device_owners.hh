// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_DEVICE_OWNERS_HH
#define DRFQ_GEM5_DEVICE_OWNERS_HH

#include "dev/io_device.hh"
#include "gem5/label.hh"
#include "gem5/owner_table.hh"
#include "params/DrfqDeviceOwners.hh"

namespace gem5 {

/**
 * The owners of the requests of gem5's own devices, which label none of them. A driver writes the
 * owner of a command to the device's register before it starts the command.
 */
class DrfqDeviceOwners : public BasicPioDevice {
 public:
  explicit DrfqDeviceOwners(const DrfqDeviceOwnersParams &p);

  /** Labels a request of one of the devices that has no label yet. */
  void stamp(const RequestPtr &req) const;

  void init() override;
  Tick read(PacketPtr pkt) override;
  Tick write(PacketPtr pkt) override;
  void serialize(CheckpointOut &cp) const override;
  void unserialize(CheckpointIn &cp) override;

 private:
  const std::vector<SimObject *> devices;
  ::drfq::OwnerTable table;
};

}  // namespace gem5

#endif
