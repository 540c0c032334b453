// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/pci_registers.hh"

#include <algorithm>

#include "mem/packet_access.hh"

namespace gem5 {

DrfqPciRegisters::DrfqPciRegisters(const DrfqPciRegistersParams &p)
    : PciDevice(p), channels(p.controllers, p.name) {
  // Drfq.py cannot read the table of the registers.
  fatal_if(p.VendorID != ::drfq::virtual_machine::kPciVendor ||
               p.DeviceID != ::drfq::virtual_machine::kPciDevice,
           "%s: the function is not the one that the agent looks for", p.name);
}

Addr DrfqPciRegisters::offsetOf(PacketPtr pkt) {
  int bar = 0;
  Addr offset = 0;
  const bool found = getBAR(pkt->getAddr(), bar, offset);
  panic_if(!found || bar != static_cast<int>(::drfq::virtual_machine::kPciBar),
           "%s: an access outside its region", name());
  return offset;
}

Tick DrfqPciRegisters::read(PacketPtr pkt) {
  const Addr offset = offsetOf(pkt);
  std::uint64_t value = 0;
  if (pkt->getSize() == sizeof value) {
    channels.read(offset, &value);
    pkt->setLE(value);
  } else {
    std::fill_n(pkt->getPtr<std::uint8_t>(), pkt->getSize(), 0);
  }
  pkt->makeAtomicResponse();
  return pioDelay;
}

Tick DrfqPciRegisters::write(PacketPtr pkt) {
  const Addr offset = offsetOf(pkt);
  if (pkt->getSize() == sizeof(std::uint64_t)) channels.write(offset, pkt->getLE<std::uint64_t>());
  pkt->makeAtomicResponse();
  return pioDelay;
}

}  // namespace gem5
