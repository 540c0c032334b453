// SPDX-License-Identifier: GPL-2.0-only
// The next access of an agent. A generator knows addresses only; agent.hh decides
// how many lines are outstanding and when they are sent.
#ifndef DRFQ_GENERATOR_HH
#define DRFQ_GENERATOR_HH

#include <array>
#include <string>

#include "core/attribution.hh"
#include "core/units.hh"
#include "random.hh"

namespace drfq {

enum class Kind : std::uint8_t {
  copy,    ///< mbw: reads a source, reads its target (write-allocate), writes it back
  stream,  ///< sequential over several arrays; lbm-like and stencil-like by their options
  chase,   ///< random dependent reads; writes back a part of what it read
  dma,     ///< a device: posted writes in blocks, a pause after each
  cpu,     ///< computes: no traffic
  phase,   ///< copy and cpu by turns
};

struct AgentOptions {
  std::string name;
  Kind kind = Kind::copy;
  Label label;
  unsigned outstanding_lines = 8;         ///< at least 1
  Ps gap = 0;                             ///< least time between two packets (compute)
  std::uint64_t base = 0;                 ///< first address
  std::uint64_t array_bytes = 16u << 20;  ///< of each array
  unsigned arrays = 2;                    ///< stream: how many are walked side by side
  unsigned write_percent = 0;             ///< stream and chase: share of writes, 0..100
  std::uint64_t block_bytes = 1u << 20;   ///< dma
  Ps pause = 0;                           ///< dma: after each block
  Ps period = 10 * kPsPerMs;              ///< phase: length of each half
  std::uint64_t bytes_per_s = 0;  ///< rate limit; 0: as fast as outstanding_lines and gap allow
  Ps start = 0;
  bool enabled = true;
  std::uint64_t seed = 1;
};

inline constexpr std::uint32_t kLineBytes = 64;

/// Bytes from base that an agent's addresses cover.
inline std::uint64_t footprint(const AgentOptions &o) {
  switch (o.kind) {
    case Kind::stream:
      return o.array_bytes * (o.arrays ? o.arrays : 1) * (o.write_percent ? 2 : 1);
    case Kind::chase:
    case Kind::dma:
      return o.array_bytes;
    case Kind::cpu:
      return 0;
    default:
      return 2 * o.array_bytes;
  }
}

class Generator {
 public:
  struct Access {
    std::uint64_t address = 0;
    Dir dir = Dir::read;
    Ps pause_after = 0;
  };

  explicit Generator(const AgentOptions &o)
      : o_(o),
        random_(o.seed),
        array_lines_(o.array_bytes / kLineBytes ? o.array_bytes / kLineBytes : 1),
        mask_((array_lines_ & (array_lines_ - 1)) == 0 ? array_lines_ - 1 : 0) {
    always_ = o.enabled && o.start == 0 && o.kind != Kind::cpu && o.kind != Kind::phase;
    // Runs that differ by the seed alone start at different rows and banks.
    if (o.seed != 0) position_ = random_.below(array_lines_);
  }

  /// The earliest time, from now on, at which the generator has a packet; kNever: never.
  Ps active_from(Ps now) const {
    if (always_) return now;
    if (!o_.enabled || o_.kind == Kind::cpu) return kNever;
    if (now < o_.start) return o_.start;
    if (o_.kind != Kind::phase) return now;
    const Ps into = (now - o_.start) % (2 * o_.period);
    return into < o_.period ? now : now + 2 * o_.period - into;
  }

  Access next() {
    switch (o_.kind) {
      case Kind::stream:
        return next_stream();
      case Kind::chase:
        return next_chase();
      case Kind::dma:
        return next_dma();
      default:
        return next_copy();
    }
  }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f(self.random_, self.position_, self.step_, self.sent_, self.write_debt_, self.walked_);
  }

 private:
  std::uint64_t line(unsigned array, std::uint64_t i) const {
    const std::uint64_t within = mask_ != 0 ? i & mask_ : i % array_lines_;
    return o_.base + array * o_.array_bytes + within * kLineBytes;
  }

  Access next_copy() {
    const unsigned step = step_++ % 3;
    const std::uint64_t i = position_;
    if (step == 2) position_++;
    return {line(step == 0 ? 0 : 1, i), step == 2 ? Dir::write : Dir::read, 0};
  }

  /// Reads and writes are spread evenly; each direction walks its arrays in turn.
  Access next_stream() {
    write_debt_ += o_.write_percent;
    const bool write = write_debt_ >= 100;
    if (write) write_debt_ -= 100;
    const unsigned d = write ? 1 : 0;
    const unsigned arrays = o_.arrays ? o_.arrays : 1;
    const std::uint64_t n = walked_[d]++;
    return {line(d * arrays + static_cast<unsigned>(n % arrays), position_ + n / arrays),
            write ? Dir::write : Dir::read, 0};
  }

  Access next_chase() {
    write_debt_ += o_.write_percent;
    const bool write = write_debt_ >= 100;
    if (write) write_debt_ -= 100;
    return {line(0, random_.below(array_lines_)), write ? Dir::write : Dir::read, 0};
  }

  Access next_dma() {
    const std::uint64_t i = position_++;
    sent_ += kLineBytes;
    const bool last = sent_ >= o_.block_bytes;
    if (last) sent_ = 0;
    return {line(0, i), Dir::write, last ? o_.pause : 0};
  }

  AgentOptions o_;
  Random random_;
  std::uint64_t array_lines_;
  std::uint64_t
      mask_;     // of array_lines_ when that is a power of two above 1, for a division is slow
  bool always_;  // it has a packet at any time
  std::uint64_t position_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t sent_ = 0;
  unsigned write_debt_ = 0;
  std::array<std::uint64_t, 2> walked_{};
};

}  // namespace drfq

#endif
