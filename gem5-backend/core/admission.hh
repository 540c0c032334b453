// SPDX-License-Identifier: GPL-2.0-only
// Whether a packet may enter its queue (thesis 4.4).
#ifndef DRFQ_ADMISSION_HH
#define DRFQ_ADMISSION_HH

#include "queue.hh"

namespace drfq {

enum class Admission : std::uint8_t {
  accepted = 0,
  full = 1,      ///< no room for all of the packet's bursts
  reserved = 2,  ///< over 90 % full, and not before the head: the rest is kept for others
  blocked = 3,   ///< single port: the crossbar is held by another agent's refused packet
};

inline const char *name(Admission a) {
  switch (a) {
    case Admission::accepted:
      return "accepted";
    case Admission::full:
      return "full";
    case Admission::reserved:
      return "reserved";
    case Admission::blocked:
      return "blocked";
  }
  return "?";
}

/// Rule (i): whether the queue has room for all bursts. in_flight: entries that left the
/// queue but still hold a buffer (reads whose data is on its way, as gem5 counts them).
inline bool has_room(const Queue &q, unsigned in_flight, unsigned bursts) {
  return q.size() + in_flight + bursts <= q.capacity();
}

/// Both rules. The share in use is measured before the packet is added. The queue's head
/// has the lowest virtual time in the queue; an empty queue has none.
inline Admission admit(const Queue &q, unsigned in_flight, unsigned bursts, VTime vtime) {
  if (!has_room(q, in_flight, bursts)) return Admission::full;
  const bool scarce = (q.size() + in_flight) * 10 > q.capacity() * 9;
  if (scarce && !q.empty() && vtime >= q.head().vtime) return Admission::reserved;
  return Admission::accepted;
}

}  // namespace drfq

#endif
