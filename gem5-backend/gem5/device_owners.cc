// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/device_owners.hh"

#include "gem5/checkpoint.hh"
#include "mem/packet_access.hh"
#include "sim/system.hh"

namespace gem5 {

DrfqDeviceOwners::DrfqDeviceOwners(const DrfqDeviceOwnersParams &p)
    : BasicPioDevice(p, sizeof(std::uint64_t) * p.devices.size()),
      devices(p.devices),
      table(p.devices.size(), p.owners) {
  fatal_if(devices.empty() || p.owners.size() > devices.size(),
           "%s: it needs devices, and at most as many owners", p.name);
  for (const std::uint64_t owner : p.owners)
    fatal_if(owner >= ::drfq::kPids, "%s: there is no hardware id %d", p.name, owner);
}

void DrfqDeviceOwners::init() {
  BasicPioDevice::init();
  // All objects exist by now, so all have their ids.
  for (std::size_t i = 0; i < devices.size(); i++) {
    const RequestorID id = sys->lookupRequestorId(devices[i]);
    fatal_if(id == Request::invldRequestorId, "%s: %s sends no requests", name(),
             devices[i]->name());
    table.bind(i, id);
  }
}

void DrfqDeviceOwners::stamp(const RequestPtr &req) const {
  const ::drfq::Label label = table.label_of(req->requestorId());
  if (label.substream != 0) drfqStamp(req, label);
}

Tick DrfqDeviceOwners::read(PacketPtr pkt) {
  std::uint64_t value = 0;
  const bool ok = pkt->getSize() == sizeof value &&
                  table.read(pkt->getAddr() - pioAddr, &value) == ::drfq::Access::ok;
  if (ok) pkt->setLE(value);
  pkt->makeAtomicResponse();
  if (!ok) pkt->setBadAddress();
  return pioDelay;
}

Tick DrfqDeviceOwners::write(PacketPtr pkt) {
  const bool ok =
      pkt->getSize() == sizeof(std::uint64_t) &&
      table.write(pkt->getAddr() - pioAddr, pkt->getLE<std::uint64_t>()) == ::drfq::Access::ok;
  pkt->makeAtomicResponse();
  if (!ok) pkt->setBadAddress();
  return pioDelay;
}

void DrfqDeviceOwners::serialize(CheckpointOut &cp) const {
  BasicPioDevice::serialize(cp);
  drfqOut(cp, "owners", table.owners());
}

void DrfqDeviceOwners::unserialize(CheckpointIn &cp) {
  BasicPioDevice::unserialize(cp);
  const ::drfq::StateWords owners = drfqIn(cp, "owners");
  fatal_if(owners.size() != devices.size(), "%s: cannot restore: it had %d devices", name(),
           owners.size());
  for (std::size_t i = 0; i < owners.size(); i++)
    fatal_if(table.write(sizeof owners[i] * i, owners[i]) != ::drfq::Access::ok,
             "%s: cannot restore: there is no hardware id %d", name(), owners[i]);
}

}  // namespace gem5
