// SPDX-License-Identifier: GPL-2.0-only
// Any calls of the C interface, with any values. A packet that is accepted is queued as a host does
// it, or is forgotten, or is queued by another attribution.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/drfq_mc.h"
#include "tests/fuzz/input.hh"

namespace {

using drfq::Input;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Host {
  std::uint64_t bits;  // the state of its banks
};

bool ready(void *host, uint16_t bank) { return static_cast<Host *>(host)->bits >> bank % 64 & 1; }
bool row_hit(void *host, uint16_t bank, uint32_t row) {
  return (static_cast<Host *>(host)->bits >> (bank + row) % 64 & 1) != 0;
}
uint64_t column_at(void *host, uint16_t bank, bool write) {
  return static_cast<Host *>(host)->bits >> bank % 64 << (write ? 1 : 0);
}
uint64_t activate_at(void *host, uint16_t bank) {
  return static_cast<Host *>(host)->bits << bank % 64;
}

/// The options; the defaults for a part of the inputs.
drfq_mc *create(Input *in) {
  drfq_mc_options o;
  drfq_mc_defaults(&o);
  if (in->take(1) % 4 == 0) return drfq_mc_new(&o);
  o.policy = in->any32();
  o.cores = in->any32();
  o.read_entries = in->any32();
  o.write_entries = in->any32();
  o.tie_bursts = in->any32();
  o.run_bursts = in->take(1) % 8 == 0 ? in->any32() : in->take(1);
  o.aging_ps = in->any();
  return drfq_mc_new(&o);
}

void registers(Input *in, drfq_mc *mc) {
  std::uint64_t value = 0;
  const std::uint64_t offset = in->any();
  const int peeked = drfq_mc_peek(mc, offset, &value);
  const int got =
      in->take(1) % 2 ? drfq_mc_read(mc, offset, &value) : drfq_mc_write(mc, offset, in->any());
  for (int access : {peeked, got}) require(access >= 0 && access <= 3);
}

void arrive(Input *in, drfq_mc *mc) {
  drfq_mc_packet p = {};
  p.core = in->any32();
  p.substream = in->any32();
  p.bytes = in->any32();
  p.bursts = in->any32();
  p.in_flight = in->any32();
  p.write = in->take(1) % 2 != 0;
  drfq_mc_attribution a = {};
  const std::uint32_t before = drfq_mc_waiting(mc, p.write);
  const int admission = drfq_mc_arrive(mc, &p, &a);
  require(admission >= DRFQ_MC_BAD_PACKET && admission <= 2);
  require((p.bursts > 256) == (admission == DRFQ_MC_BAD_PACKET));
  require(drfq_mc_waiting(mc, p.write) == before);
  const unsigned how = static_cast<unsigned>(in->take(1));
  if (admission != 0 || how % 4 == 0) return;
  if (how % 4 == 1) a = {in->any32(), in->any()};
  for (std::uint32_t i = 0; i < p.bursts; i++) {
    const std::uint16_t bank = static_cast<std::uint16_t>(in->take(how & 4 ? 2 : 1));
    const std::uint32_t waiting = drfq_mc_waiting(mc, p.write);
    const bool queued = drfq_mc_enqueue(mc, p.write, &a, in->any(), bank, in->any32(),
                                        static_cast<std::uint16_t>(i));
    require(drfq_mc_waiting(mc, p.write) == waiting + (queued ? 1 : 0));
    require(!queued || bank < 256);
  }
}

void choose(Input *in, drfq_mc *mc) {
  Host host = {in->any()};
  const unsigned how = static_cast<unsigned>(in->take(1));
  drfq_mc_view view = {
      &host, ready, row_hit, column_at, activate_at, in->any(), {in->any(), in->any()}};
  if (how % 16 == 1) view.ready = nullptr;
  if (how % 16 == 2) view.row_hit = nullptr;
  if (how % 16 == 3) view.column_at = nullptr;
  if (how % 16 == 4) view.activate_at = nullptr;
  const std::uint32_t waiting[2] = {drfq_mc_waiting(mc, false), drfq_mc_waiting(mc, true)};
  drfq_mc_burst burst = {};
  const bool found = drfq_mc_choose(mc, &view, in->any(), in->any(), &burst);
  for (const bool write : {false, true}) {
    const bool left = found && burst.write == write;
    require(drfq_mc_waiting(mc, write) == waiting[write] - (left ? 1 : 0));
  }
  require(!found || burst.bank < 256);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  Input in(data, size);
  drfq_mc *mc = create(&in);
  if (mc == nullptr) return 0;
  for (unsigned calls = 0; !in.empty() && calls < 2000; calls++) {
    switch (in.take(1) % 4) {
      case 0:
        registers(&in, mc);
        break;
      case 1:
      case 2:
        arrive(&in, mc);
        break;
      default:
        choose(&in, mc);
    }
  }
  drfq_mc_free(mc);
  return 0;
}
