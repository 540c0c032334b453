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

}  // namespace

/// Bytes that reads of one burst get within a time, with open pages and FR-FCFS.
extern "C" std::uint64_t drfq_model_read_bytes(const std::uint64_t *t, std::uint64_t (*next)(void *),
                                               void *addresses, unsigned outstanding,
                                               std::uint64_t end_ps) {
  MemoryOptions o;
  o.controller.policy = Policy::frfcfs;
  Timing &m = o.timing;
  m.page = PagePolicy::open;
  m.accesses_per_row = 0;
  Ps *const fields[] = {&m.ck, &m.cl, &m.cwl, &m.rcd, &m.rp, &m.ras, &m.rfc,
                        &m.refi, &m.rrd, &m.wtr, &m.xaw, &m.wr, &m.rtp, &m.burst};
  for (Ps *f : fields) *f = *t++;
  m.rrd_l = m.rrd;
  m.wtr_l = m.wtr;
  m.ccd_l = m.ccd_l_wr = m.burst;
  return Reader(o, next, addresses).bytes_until(end_ps, outstanding);
}
