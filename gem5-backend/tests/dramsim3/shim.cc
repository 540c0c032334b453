// SPDX-License-Identifier: GPL-2.0-only
// Reads the model as fast as it answers.
#include <utility>

#include "model/memory.hh"

namespace {

using namespace drfq;

/// A fixed number of reads outstanding; an answer asks for the next.
class Reader final : private Listener {
 public:
  Reader(const MemoryOptions &o, std::uint64_t (*next)(void *), void *addresses)
      : memory_(o), next_(next), addresses_(addresses) {
    memory_.listen(this);
    packet_.bytes = o.timing.burst_bytes;
  }

  std::uint64_t bytes_until(Ps end, unsigned outstanding) {
    for (unsigned i = 0; i < outstanding; i++) send();
    memory_.advance(end);
    return done_ * packet_.bytes;
  }

 private:
  void send() {
    packet_.address = next_(addresses_);
    waiting_ += memory_.submit(packet_, memory_.now()) != Admission::accepted;
  }

  void completed(const Completion &) override {
    done_++;
    send();
  }

  void room(Dir, Ps) override {
    for (unsigned n = std::exchange(waiting_, 0); n != 0; n--) send();
  }

  Memory memory_;
  Packet packet_;
  std::uint64_t (*next_)(void *);
  void *addresses_;
  std::uint64_t done_ = 0;
  unsigned waiting_ = 0;
};

/// The geometry of a device and its timing in clock cycles; lib.rs has the same struct.
struct DramCycles {
  std::uint64_t burst_bytes, row_bytes, banks, rows;
  std::uint64_t ck_ps;
  std::uint64_t cl, cwl, rcd, rp, ras, rfc, refi, rrd, wtr, faw, wr, rtp, burst;
};

struct CycleField {
  std::uint64_t DramCycles::*cycles;
  Ps Timing::*ps;
};
constexpr CycleField kFields[] = {
    {&DramCycles::cl, &Timing::cl},       {&DramCycles::cwl, &Timing::cwl},
    {&DramCycles::rcd, &Timing::rcd},     {&DramCycles::rp, &Timing::rp},
    {&DramCycles::ras, &Timing::ras},     {&DramCycles::rfc, &Timing::rfc},
    {&DramCycles::refi, &Timing::refi},   {&DramCycles::rrd, &Timing::rrd},
    {&DramCycles::wtr, &Timing::wtr},     {&DramCycles::faw, &Timing::faw},
    {&DramCycles::wr, &Timing::wr},       {&DramCycles::rtp, &Timing::rtp},
    {&DramCycles::burst, &Timing::burst},
};

}  // namespace

/// LPDDR2-1066 x32 with every time rounded up to whole cycles.
extern "C" void drfq_model_lpddr2(DramCycles *out) {
  const Timing t = lpddr2_1066_x32();
  *out = {};
  out->burst_bytes = t.burst_bytes;
  out->row_bytes = t.row_bytes;
  out->banks = t.banks;
  out->rows = t.rows;
  out->ck_ps = t.ck;
  for (const CycleField &f : kFields) out->*f.cycles = (t.*f.ps + t.ck - 1) / t.ck;
}

/// Bytes that reads of one burst get within a time, with open pages and FR-FCFS.
extern "C" std::uint64_t drfq_model_read_bytes(const DramCycles *c, std::uint64_t (*next)(void *),
                                               void *addresses, unsigned outstanding,
                                               std::uint64_t end_ps) {
  MemoryOptions o;
  o.controller.policy = Policy::frfcfs;
  Timing &m = o.timing;
  m.page = PagePolicy::open;
  m.accesses_per_row = 0;
  m.ck = c->ck_ps;
  for (const CycleField &f : kFields) m.*f.ps = c->*f.cycles * c->ck_ps;
  m.rrd_l = m.rrd;
  m.wtr_l = m.wtr;
  m.ccd_l = m.ccd_l_wr = m.burst;
  return Reader(o, next, addresses).bytes_until(end_ps, outstanding);
}
