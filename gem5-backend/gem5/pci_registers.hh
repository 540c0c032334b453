// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_PCI_REGISTERS_HH
#define DRFQ_GEM5_PCI_REGISTERS_HH

#include "dev/pci/device.hh"
#include "gem5/channels.hh"
#include "params/DrfqPciRegisters.hh"

namespace gem5 {

/**
 * The controller's registers as the PCI function that `--controller mmio:auto` finds, as the
 * modelled machine shows them. As in that machine, what is no register reads 0, and a write that
 * is refused changes nothing: an error on the bus would end the program that mapped the device.
 */
class DrfqPciRegisters : public PciDevice {
 public:
  explicit DrfqPciRegisters(const DrfqPciRegistersParams &p);

  Tick read(PacketPtr pkt) override;
  Tick write(PacketPtr pkt) override;

 private:
  /** Into the function's one region. */
  Addr offsetOf(PacketPtr pkt);

  DrfqChannels channels;
};

}  // namespace gem5

#endif
