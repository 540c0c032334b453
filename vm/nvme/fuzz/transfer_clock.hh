// SPDX-License-Identifier: GPL-2.0-only
#ifndef DRFQ_NVME_FUZZ_TRANSFER_CLOCK_HH
#define DRFQ_NVME_FUZZ_TRANSFER_CLOCK_HH

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "hardware/dma_engine.hh"

namespace drfq::nvme {

/// Time in which the machine's DMA engine moves the lines of transfers. Memory takes a fixed time
/// for each line.
class TransferClock {
 public:
  TransferClock();

  void start(std::uint64_t id, Dir, const std::vector<hardware::Segment> &);
  void cancel();
  /// Lets time pass up to this moment (kNever: until nothing happens any more), or up to the end of
  /// a transfer, whose id it returns. Throws std::logic_error if time goes back.
  std::optional<std::uint64_t> next(Ps until);

  Ps now() const { return now_; }
  /// Lines that have left so far.
  std::uint64_t lines() const { return lines_; }
  const hardware::DeviceTraffic &traffic() const { return engine_.traffic(); }
  bool busy() const { return engine_.busy() || !due_.empty(); }

 private:
  void step(Ps done_at);

  hardware::DmaEngine engine_;
  Ps now_ = 0;
  std::uint64_t lines_ = 0;
  std::deque<std::pair<Ps, std::uint64_t>> under_way_;  // when memory is done with a line
  std::multimap<Ps, std::uint64_t> due_;                // ids
};

}  // namespace drfq::nvme

#endif
