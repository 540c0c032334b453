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

// A record's each_field() calls f with each field of the layout and the member that holds it.

struct Header {
  std::uint32_t length = kHeaderBytes;  ///< of the whole frame, bytes
  std::uint16_t op = 0;
  std::uint16_t status = 0;
  std::uint32_t tag = 0;  ///< the client's; its reply carries it back
  std::uint32_t zero = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t time_ps = 0;  ///< simulated time of the reply; 0 in a request

  template <class Self, class F>
  static void each_field(Self &r, F f) {
    f(header::kLength, r.length);
    f(header::kOp, r.op);
    f(header::kStatus, r.status);
    f(header::kTag, r.tag);
    f(header::kZero, r.zero);
    f(header::kA, r.a);
    f(header::kB, r.b);
    f(header::kTimePs, r.time_ps);
  }
};

struct BatchRecord {
  std::uint16_t op = 0;  ///< Op::read, Op::write or Op::peek
  std::uint16_t status = 0;
  std::uint32_t zero = 0;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;

  template <class Self, class F>
  static void each_field(Self &r, F f) {
    f(batch_record::kOp, r.op);
    f(batch_record::kStatus, r.status);
    f(batch_record::kZero, r.zero);
    f(batch_record::kOffset, r.offset);
    f(batch_record::kValue, r.value);
  }
};

/// Traffic that the server generates for one process (shadow mode).
struct DemandRecord {
  std::uint32_t substream = 0;          ///< pid of a device's traffic, 0: a core's
  std::uint32_t core = 0;               ///< when substream is 0
  std::uint64_t bytes_per_s = 0;        ///< 0: ends the demand
  std::uint32_t outstanding_lines = 0;  ///< 1..kDemandOutstandingLinesMax
  std::uint32_t write_percent = 0;      ///< 0..100
  std::uint64_t seed = 0;               ///< of its addresses

  template <class Self, class F>
  static void each_field(Self &r, F f) {
    f(demand_record::kSubstream, r.substream);
    f(demand_record::kCore, r.core);
    f(demand_record::kBytesPerS, r.bytes_per_s);
    f(demand_record::kOutstandingLines, r.outstanding_lines);
    f(demand_record::kWritePercent, r.write_percent);
    f(demand_record::kSeed, r.seed);
  }
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

/// to has the bytes of the record.
template <class Record>
void encode(const Record &r, unsigned char *to) {
  Record::each_field(r, [to](auto field, auto v) { put(to, field, v); });
}

/// from has the bytes of the record.
template <class Record>
Record decode(const unsigned char *from) {
  Record r;
  Record::each_field(r, [from](auto field, auto &v) { v = get(from, field); });
  return r;
}

/// The bytes that a record has on the wire.
template <class Record>
inline constexpr std::size_t kRecordBytes = 0;
template <>
inline constexpr std::size_t kRecordBytes<BatchRecord> = kBatchRecordBytes;
template <>
inline constexpr std::size_t kRecordBytes<DemandRecord> = kDemandRecordBytes;

/// Calls f with each record of a payload, and the place of its first byte.
template <class Record, class F>
void each_record(const unsigned char *payload, std::size_t bytes, F f) {
  for (std::size_t at = 0; at + kRecordBytes<Record> <= bytes; at += kRecordBytes<Record>)
    f(decode<Record>(payload + at), at);
}

/// What a received buffer holds.
enum class Parse { need_more, frame, malformed };

/// Looks for a frame at the start of a buffer. malformed: the length or the
/// reserved field is wrong, so the next frame cannot be found.
inline Parse find_frame(const unsigned char *from, std::size_t bytes, Header *h) {
  if (bytes < sizeof h->length) return Parse::need_more;
  h->length = get(from, header::kLength);
  if (h->length < kHeaderBytes || h->length > kFrameMax) return Parse::malformed;
  if (bytes < kHeaderBytes) return Parse::need_more;
  *h = decode<Header>(from);
  if (h->zero != 0) return Parse::malformed;
  return bytes < h->length ? Parse::need_more : Parse::frame;
}

}  // namespace wire
}  // namespace drfq

#endif
