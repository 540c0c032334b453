// SPDX-License-Identifier: GPL-2.0-only
// Which process owns each device's requests, as registers. It knows nothing of gem5.
#ifndef DRFQ_GEM5_OWNER_TABLE_HH
#define DRFQ_GEM5_OWNER_TABLE_HH

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/attribution.hh"

namespace drfq {

/// One register of 8 bytes for each device, in the order of the devices: the hardware id of the
/// owner, 0 for none. As in the controller's registers, only aligned accesses succeed.
class OwnerTable {
 public:
  /// owners: at the start; devices beyond its end have none.
  OwnerTable(std::size_t devices, std::vector<std::uint64_t> owners) : owners_(std::move(owners)) {
    owners_.resize(devices);
    requestors_.resize(devices, kUnbound);
  }

  std::uint64_t bytes() const { return kBytes * owners_.size(); }

  Access read(std::uint64_t offset, std::uint64_t *value) const {
    if (!has(offset)) return Access::bad_address;
    *value = owners_[offset / kBytes];
    return Access::ok;
  }

  /// An id that the controller's registers lack is refused.
  Access write(std::uint64_t offset, std::uint64_t value) {
    if (!has(offset)) return Access::bad_address;
    if (value >= kPids) return Access::bad_value;
    owners_[offset / kBytes] = value;
    return Access::ok;
  }

  /// Names the sender of a device's requests.
  void bind(std::size_t device, std::uint32_t requestor) { requestors_[device] = requestor; }

  /// The label of a request by its sender; none for what is no device of this table.
  Label label_of(std::uint32_t requestor) const {
    const auto found = std::find(requestors_.begin(), requestors_.end(), requestor);
    if (found == requestors_.end()) return {};
    return Label::of_substream(static_cast<Pid>(owners_[found - requestors_.begin()]));
  }

  const std::vector<std::uint64_t> &owners() const { return owners_; }

 private:
  static constexpr std::uint64_t kBytes = 8;
  static constexpr std::uint32_t kUnbound = ~std::uint32_t{0};

  bool has(std::uint64_t offset) const { return offset % kBytes == 0 && offset < bytes(); }

  std::vector<std::uint64_t> owners_;
  std::vector<std::uint32_t> requestors_;
};

}  // namespace drfq

#endif
