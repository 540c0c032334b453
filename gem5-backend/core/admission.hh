// SPDX-License-Identifier: GPL-2.0-only
// Whether a packet may enter its queue (thesis 4.4, and a rule beyond it).
#ifndef DRFQ_ADMISSION_HH
#define DRFQ_ADMISSION_HH

#include "owners.hh"
#include "queue.hh"

namespace drfq {

enum class AdmissionRule : std::uint8_t {
  thesis,  ///< the last 10 % are for packets before the queue's head
  share,   ///< and room is kept for what each owner claims (owners.hh)
};

enum class Admission : std::uint8_t {
  accepted = 0,
  full = 1,      ///< no room for all of the packet's bursts
  reserved = 2,  ///< the room that is left is kept for others
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
  return std::uint64_t{q.size()} + in_flight + bursts <= q.capacity();
}

/// The thesis' rules (i) and (ii). The share in use is measured before the packet is added. The
/// queue's head has the lowest virtual time in the queue; an empty queue has none.
inline Admission admit(const Queue &q, unsigned in_flight, unsigned bursts, VTime vtime) {
  if (!has_room(q, in_flight, bursts)) return Admission::full;
  const bool scarce = (q.size() + in_flight) * 10 > q.capacity() * 9;
  if (scarce && !q.empty() && vtime >= q.head().vtime) return Admission::reserved;
  return Admission::accepted;
}

/// The rule of shares. A packet leaves the room that owners of no higher virtual time claim. Over
/// 90 % it must come before the head, or be within what its owner claims. An eighth of the queue
/// is for all: an owner that stops would otherwise shut the others out until it is not active.
/// An owner that starves enters wherever there is room.
[[gnu::noinline]] inline Admission admit_share(const Queue &q, const Owners &owners, Dir d,
                                               unsigned in_flight, unsigned bursts, Pid pid,
                                               VTime vtime) {
  if (!has_room(q, in_flight, bursts)) return Admission::full;
  const unsigned capacity = q.capacity(), used = q.size() + in_flight;
  if (used == 0 || (used + bursts) * 8 <= capacity) return Admission::accepted;
  if (owners.starves(pid, d)) return Admission::accepted;
  const bool scarce = used * 10 > capacity * 9 && !q.empty() && vtime >= q.head().vtime;
  if (scarce && owners.unused(pid, d) < bursts) return Admission::reserved;
  const unsigned kept = owners.kept_from(pid, d);
  return used + bursts + kept > capacity ? Admission::reserved : Admission::accepted;
}

/// Whether the rule of shares refuses every packet of no fewer bursts whose owner has no lower a
/// virtual time, and changes no claim. An owner that may claim less than the packet needs claims no
/// more when it is refused, and gets nothing above 90 %.
inline bool refuses_rest(const Queue &q, const Owners::Rest &rest, unsigned in_flight,
                         unsigned bursts, VTime lowest) {
  if (rest.part >= bursts) return false;
  if (admit(q, in_flight, bursts, lowest) != Admission::accepted) return true;
  const unsigned used = q.size() + in_flight;
  return used != 0 && (used + bursts) * 8 > q.capacity() &&
         used + bursts + rest.kept > q.capacity();
}

}  // namespace drfq

#endif
