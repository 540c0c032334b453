// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_GEM5_SENDERS_HH
#define DRFQ_GEM5_SENDERS_HH

#include <optional>
#include <vector>

#include "gem5/device_owners.hh"
#include "gem5/label.hh"
#include "sim/system.hh"

namespace gem5 {

/**
 * The labels of requests that name only their sender. gem5's devices send such requests. So do the
 * parts of a CPU: its page walkers, and its first cache in place of a software prefetch.
 */
class DrfqSenders {
 public:
  /** devices_ may be null. */
  DrfqSenders(System *system_, const DrfqDeviceOwners *devices_)
      : system(system_), devices(devices_) {}

  /** Labels a request that has no label yet, if its sender is known; returns its label. */
  ::drfq::Label stamp(const RequestPtr &req);

 private:
  ::drfq::Label coreOf(RequestorID sender);

  System *const system;
  const DrfqDeviceOwners *const devices;
  std::vector<std::optional<::drfq::Label>> cores;  // by requestor id, once asked for
};

}  // namespace gem5

#endif
