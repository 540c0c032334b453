// SPDX-License-Identifier: GPL-2.0-only
// What a core did that concerns more than its private cache.
#ifndef DRFQ_HARDWARE_LOG_ENTRY_HH
#define DRFQ_HARDWARE_LOG_ENTRY_HH

#include <cstdint>

namespace drfq::hardware {

/// One entry of a core's log, which is in program order.
struct LogEntry {
  enum class Kind : std::uint8_t {
    load,            ///< a load missed the private cache; arg: line
    store,           ///< a store missed it; arg: line
    write_back,      ///< the private cache evicted a dirty line; arg: line
    flush,           ///< arg: line; extra: whether it was dirty in the private cache
    stream,          ///< a streaming store of a whole line; arg: line
    set_class,       ///< IA32_PQR_ASSOC; arg: rmid, extra: clos
    busy,            ///< arg: ps that pass without retiring
    wake,            ///< arg: the core goes on no earlier than this time
    write_register,  ///< a controller register; arg: offset, extra: value
    set_space,       ///< the core changes to another address space; arg: its page table
    fence,           ///< the core waits for all its misses
    start_transfer,  ///< the core rings a device's doorbell; arg: the transfer's id
  };
  std::uint64_t insns = 0;  ///< retired before it
  std::uint64_t arg = 0;
  std::uint64_t extra = 0;
  Kind kind = Kind::load;
  std::uint8_t ring = 0;  ///< 0 kernel, 1 user
};

}  // namespace drfq::hardware

#endif
