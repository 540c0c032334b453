// SPDX-License-Identifier: GPL-2.0-only
// Codec of the controller's socket protocol; PROTOCOL.md is its description.
// Reads and writes byte buffers only: no socket, no allocation.
#ifndef DRFQ_WIRE_HH
#define DRFQ_WIRE_HH

#include <cstddef>
#include <cstdint>

namespace drfq {
namespace wire {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kFrameMax = 65536;  ///< header and payload
inline constexpr std::size_t kBatchRecordBytes = 24;
inline constexpr std::size_t kDemandRecordBytes = 32;

enum class Op : std::uint16_t {
  hello = 1,
  read = 2,
  write = 3,
  peek = 4,
  batch = 5,
  advance = 6,
  demand = 7,
  stats = 8,
  subscribe = 9,
};
inline constexpr std::uint16_t kReply = 0x8000;  ///< set in the op of a reply
inline constexpr std::uint16_t kEvent = 0x4000;  ///< set in the op of a subscribed frame

enum class Status : std::uint16_t {
  ok = 0,
  bad_address = 1,  ///< as drfq::Access
  read_only = 2,
  bad_value = 3,
  malformed = 4,  ///< the frame; the server closes the connection
  bad_version = 5,
  bad_op = 6,
  not_greeted = 7,  ///< the first frame must be hello
  not_writer = 8,   ///< a reader asked for what only the writer may
  writer_taken = 9,
  wrong_mode = 10,  ///< advance on a free-running server
};

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
  std::uint32_t substream = 0;      ///< pid of a device's traffic, 0: a core's
  std::uint32_t core = 0;           ///< when substream is 0
  std::uint64_t bytes_per_s = 0;    ///< 0: none any more
  std::uint32_t lines = 0;          ///< outstanding, 1..128
  std::uint32_t write_percent = 0;  ///< 0..100
  std::uint64_t seed = 0;           ///< of its addresses
};

template <class T>
void put(unsigned char *to, T v) {
  for (std::size_t i = 0; i < sizeof(T); i++) to[i] = static_cast<unsigned char>(v >> (8 * i));
}

template <class T>
T get(const unsigned char *from) {
  T v = 0;
  for (std::size_t i = 0; i < sizeof(T); i++)
    v = static_cast<T>(v | (static_cast<T>(from[i]) << (8 * i)));
  return v;
}

/// to has kHeaderBytes.
inline void encode(const Header &h, unsigned char *to) {
  put(to, h.length);
  put(to + 4, h.op);
  put(to + 6, h.status);
  put(to + 8, h.tag);
  put(to + 12, h.zero);
  put(to + 16, h.a);
  put(to + 24, h.b);
  put(to + 32, h.time_ps);
}

/// What a received buffer holds.
enum class Parse { need_more, frame, malformed };

/// Looks for a frame at the start of a buffer. malformed: no length, op or
/// reserved field that this version knows, so that the stream cannot be
/// followed any further.
inline Parse decode(const unsigned char *from, std::size_t bytes, Header *h) {
  if (bytes < 4) return Parse::need_more;
  h->length = get<std::uint32_t>(from);
  if (h->length < kHeaderBytes || h->length > kFrameMax) return Parse::malformed;
  if (bytes < kHeaderBytes) return Parse::need_more;
  h->op = get<std::uint16_t>(from + 4);
  h->status = get<std::uint16_t>(from + 6);
  h->tag = get<std::uint32_t>(from + 8);
  h->zero = get<std::uint32_t>(from + 12);
  h->a = get<std::uint64_t>(from + 16);
  h->b = get<std::uint64_t>(from + 24);
  h->time_ps = get<std::uint64_t>(from + 32);
  if (h->zero != 0) return Parse::malformed;
  return bytes < h->length ? Parse::need_more : Parse::frame;
}

inline void encode(const BatchRecord &r, unsigned char *to) {
  put(to, r.op);
  put(to + 2, r.status);
  put(to + 4, std::uint32_t{0});
  put(to + 8, r.offset);
  put(to + 16, r.value);
}

inline BatchRecord decode_batch(const unsigned char *from) {
  BatchRecord r;
  r.op = get<std::uint16_t>(from);
  r.status = get<std::uint16_t>(from + 2);
  r.offset = get<std::uint64_t>(from + 8);
  r.value = get<std::uint64_t>(from + 16);
  return r;
}

inline void encode(const DemandRecord &r, unsigned char *to) {
  put(to, r.substream);
  put(to + 4, r.core);
  put(to + 8, r.bytes_per_s);
  put(to + 16, r.lines);
  put(to + 20, r.write_percent);
  put(to + 24, r.seed);
}

inline DemandRecord decode_demand(const unsigned char *from) {
  DemandRecord r;
  r.substream = get<std::uint32_t>(from);
  r.core = get<std::uint32_t>(from + 4);
  r.bytes_per_s = get<std::uint64_t>(from + 8);
  r.lines = get<std::uint32_t>(from + 16);
  r.write_percent = get<std::uint32_t>(from + 20);
  r.seed = get<std::uint64_t>(from + 24);
  return r;
}

}  // namespace wire
}  // namespace drfq

#endif
