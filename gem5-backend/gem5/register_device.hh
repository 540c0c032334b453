// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_REGISTER_DEVICE_HH
#define DRFQ_GEM5_REGISTER_DEVICE_HH

#include "dev/io_device.hh"
#include "gem5/channels.hh"
#include "params/DrfqRegisters.hh"

namespace gem5 {

/**
 * The controller's registers on a bus, as interface/registers.toml lays them out. Only
 * an aligned access of 8 bytes to a register succeeds; any other gets an error.
 */
class DrfqRegisters : public BasicPioDevice {
 public:
  explicit DrfqRegisters(const DrfqRegistersParams &p);

  Tick read(PacketPtr pkt) override;
  Tick write(PacketPtr pkt) override;

  /** For a configuration in Python that writes what the agent would. A refused access ends gem5. */
  std::uint64_t get(Addr offset);
  void set(Addr offset, std::uint64_t value);

 private:
  Tick answer(PacketPtr pkt, ::drfq::Access access);

  DrfqChannels channels;
};

}  // namespace gem5

#endif
