// SPDX-License-Identifier: GPL-2.0-only
// Codec of the controller's socket protocol; PROTOCOL.md is its description and
// interface/protocol.toml holds its constants. Reads and writes byte buffers
// only: no socket, no allocation.
#ifndef DRFQ_WIRE_HH
#define DRFQ_WIRE_HH

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "generated/protocol.hh"

namespace drfq {
namespace wire {

struct Header {
  std::uint32_t length = kHeaderBytes;  ///< of the whole frame, bytes
  std::uint16_t op = 0;
  std::uint16_t status = 0;
  std::uint32_t tag = 0;  ///< the client's; its reply carries it back
  std::uint32_t zero = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t time_ps = 0;  ///< simulated time of the reply; 0 in a request
};

struct BatchRecord {
  std::uint16_t op = 0;  ///< Op::read, Op::write or Op::peek
  std::uint16_t status = 0;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;
};

/// Traffic that the server generates for one process (shadow mode).
struct DemandRecord {
  std::uint32_t substream = 0;          ///< pid of a device's traffic, 0: a core's
  std::uint32_t core = 0;               ///< when substream is 0
  std::uint64_t bytes_per_s = 0;        ///< 0: ends the demand
  std::uint32_t outstanding_lines = 0;  ///< 1..kDemandOutstandingLinesMax
  std::uint32_t write_percent = 0;      ///< 0..100
  std::uint64_t seed = 0;               ///< of its addresses
};

template <std::size_t Bytes>
using Unsigned = std::conditional_t<Bytes == 2, std::uint16_t,
                                    std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>;

template <std::size_t Bytes>
void put(unsigned char *record, Field<Bytes> field, Unsigned<Bytes> v) {
  for (std::size_t i = 0; i < Bytes; i++)
    record[field.offset + i] = static_cast<unsigned char>(v >> (8 * i));
}

template <std::size_t Bytes>
Unsigned<Bytes> get(const unsigned char *record, Field<Bytes> field) {
  Unsigned<Bytes> v = 0;
  for (std::size_t i = 0; i < Bytes; i++)
    v = static_cast<Unsigned<Bytes>>(v | static_cast<Unsigned<Bytes>>(record[field.offset + i])
                                             << (8 * i));
  return v;
}

/// to has kHeaderBytes.
inline void encode(const Header &h, unsigned char *to) {
  put(to, header::kLength, h.length);
  put(to, header::kOp, h.op);
  put(to, header::kStatus, h.status);
  put(to, header::kTag, h.tag);
  put(to, header::kZero, h.zero);
  put(to, header::kA, h.a);
  put(to, header::kB, h.b);
  put(to, header::kTimePs, h.time_ps);
}

/// What a received buffer holds.
enum class Parse { need_more, frame, malformed };

/// Looks for a frame at the start of a buffer. malformed: the length or the
/// reserved field is wrong, so the next frame cannot be found.
inline Parse decode(const unsigned char *from, std::size_t bytes, Header *h) {
  if (bytes < sizeof h->length) return Parse::need_more;
  h->length = get(from, header::kLength);
  if (h->length < kHeaderBytes || h->length > kFrameMax) return Parse::malformed;
  if (bytes < kHeaderBytes) return Parse::need_more;
  h->op = get(from, header::kOp);
  h->status = get(from, header::kStatus);
  h->tag = get(from, header::kTag);
  h->zero = get(from, header::kZero);
  h->a = get(from, header::kA);
  h->b = get(from, header::kB);
  h->time_ps = get(from, header::kTimePs);
  if (h->zero != 0) return Parse::malformed;
  return bytes < h->length ? Parse::need_more : Parse::frame;
}

inline void encode(const BatchRecord &r, unsigned char *to) {
  put(to, batch_record::kOp, r.op);
  put(to, batch_record::kStatus, r.status);
  put(to, batch_record::kZero, 0);
  put(to, batch_record::kOffset, r.offset);
  put(to, batch_record::kValue, r.value);
}

inline BatchRecord decode_batch(const unsigned char *from) {
  BatchRecord r;
  r.op = get(from, batch_record::kOp);
  r.status = get(from, batch_record::kStatus);
  r.offset = get(from, batch_record::kOffset);
  r.value = get(from, batch_record::kValue);
  return r;
}

inline void encode(const DemandRecord &r, unsigned char *to) {
  put(to, demand_record::kSubstream, r.substream);
  put(to, demand_record::kCore, r.core);
  put(to, demand_record::kBytesPerS, r.bytes_per_s);
  put(to, demand_record::kOutstandingLines, r.outstanding_lines);
  put(to, demand_record::kWritePercent, r.write_percent);
  put(to, demand_record::kSeed, r.seed);
}

inline DemandRecord decode_demand(const unsigned char *from) {
  DemandRecord r;
  r.substream = get(from, demand_record::kSubstream);
  r.core = get(from, demand_record::kCore);
  r.bytes_per_s = get(from, demand_record::kBytesPerS);
  r.outstanding_lines = get(from, demand_record::kOutstandingLines);
  r.write_percent = get(from, demand_record::kWritePercent);
  r.seed = get(from, demand_record::kSeed);
  return r;
}

}  // namespace wire
}  // namespace drfq

#endif
