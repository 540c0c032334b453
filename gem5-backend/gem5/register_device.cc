// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/register_device.hh"

#include "mem/packet_access.hh"

namespace gem5 {

DrfqRegisters::DrfqRegisters(const DrfqRegistersParams &p)
    : BasicPioDevice(p, ::drfq::mmio::kBytes), channels(p.controllers, p.name) {}

Tick DrfqRegisters::read(PacketPtr pkt) {
  std::uint64_t value = 0;
  ::drfq::Access access = ::drfq::Access::bad_address;
  if (pkt->getSize() == sizeof value) access = channels.read(pkt->getAddr() - pioAddr, &value);
  if (access == ::drfq::Access::ok) pkt->setLE(value);
  return answer(pkt, access);
}

Tick DrfqRegisters::write(PacketPtr pkt) {
  ::drfq::Access access = ::drfq::Access::bad_address;
  if (pkt->getSize() == sizeof(std::uint64_t)) {
    access = channels.write(pkt->getAddr() - pioAddr, pkt->getLE<std::uint64_t>());
  }
  return answer(pkt, access);
}

std::uint64_t DrfqRegisters::get(Addr offset) {
  std::uint64_t value = 0;
  fatal_if(channels.read(offset, &value) != ::drfq::Access::ok, "%s: no register at %#x", name(),
           offset);
  return value;
}

void DrfqRegisters::set(Addr offset, std::uint64_t value) {
  fatal_if(channels.write(offset, value) != ::drfq::Access::ok, "%s: %#x refused the value %d",
           name(), offset, value);
}

Tick DrfqRegisters::answer(PacketPtr pkt, ::drfq::Access access) {
  pkt->makeAtomicResponse();
  if (access != ::drfq::Access::ok) pkt->setBadAddress();
  return pioDelay;
}

}  // namespace gem5
