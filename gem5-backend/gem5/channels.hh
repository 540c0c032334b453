// SPDX-License-Identifier: GPL-2.0-only
// The registers of all channels as one set: a write goes to each, and bytes add up.
#ifndef DRFQ_GEM5_CHANNELS_HH
#define DRFQ_GEM5_CHANNELS_HH

#include <string>
#include <vector>

#include "base/logging.hh"
#include "gem5/mem_ctrl.hh"

namespace gem5 {

class DrfqChannels {
 public:
  DrfqChannels(const std::vector<memory::DrfqMemCtrl *> &all_, const std::string &owner)
      : all(all_) {
    fatal_if(all.empty(), "%s: it needs a controller", owner);
    for (auto *c : all)
      fatal_if(c->controller().registers().cores() != all[0]->controller().registers().cores(),
               "%s: its controllers have unequal numbers of cores", owner);
  }

  ::drfq::Access read(Addr offset, std::uint64_t *value) {
    const ::drfq::Access access = all[0]->readRegister(offset, value);
    if (access != ::drfq::Access::ok || !::drfq::RegisterFile::counts(offset)) return access;
    for (std::size_t i = 1; i < all.size(); i++) {
      std::uint64_t more = 0;
      all[i]->readRegister(offset, &more);
      *value += more;
    }
    return access;
  }

  ::drfq::Access write(Addr offset, std::uint64_t value) {
    ::drfq::Access access = ::drfq::Access::ok;
    for (auto *c : all) access = c->writeRegister(offset, value);
    return access;
  }

 private:
  const std::vector<memory::DrfqMemCtrl *> all;
};

}  // namespace gem5

#endif
