// SPDX-License-Identifier: GPL-2.0-only
// Carries out the protocol (PROTOCOL.md) for the controller of one host. It turns received
// bytes into replies; the server has the sockets.
#ifndef DRFQ_SERVICE_HH
#define DRFQ_SERVICE_HH

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/wire.hh"
#include "host/host.hh"

namespace drfq {

/// One client's state.
struct Session {
  std::vector<unsigned char> in;   ///< received, not handled yet
  std::vector<unsigned char> out;  ///< to be sent
  bool greeted = false;
  bool writer = false;
  bool ended = false;      ///< no more bytes will come; what came is still carried out
  bool gone = false;       ///< nothing reads the replies any more
  bool closing = false;    ///< close when out is empty
  bool advancing = false;  ///< an advance is under way; later frames wait
  std::uint32_t advance_tag = 0;
  Ps every = 0;  ///< subscription; 0: none
  Ps due = 0;
  std::uint32_t subscribe_tag = 0;
  std::uint64_t dropped = 0;  ///< events a slow client missed

  /// While more bytes than this wait to be sent, frames wait and events are dropped.
  static constexpr std::size_t kOutMax = 256 * 1024;
  bool congested() const { return out.size() > kOutMax; }
};

class Service {
 public:
  enum class Mode { lock_step, free_running };

  /// The host outlives the service.
  Service(Host &host, Mode mode) : host_(host), mode_(mode) {}

  Mode mode() const { return mode_; }
  Ps now() const { return host_.now(); }
  /// The last time that is simulated. What hosts and subscriptions add to it is below 1000 s, so no
  /// time reaches kNever.
  static constexpr Ps kLastPs = kNever - 1000 * 1000 * kPsPerMs;
  /// Simulated time until then.
  Ps left() const { return now() < kLastPs ? kLastPs - now() : 0; }
  /// Time of the next event; kNever: none is to come.
  Ps next_event() const { return host_.next_event(); }

  /// The most that one handle() carries out, so that other sessions have their turn.
  struct Turn {
    static constexpr unsigned kFrames = 16;
    static constexpr std::size_t kBytes = wire::kFrameMax;
  };
  /// The most sessions that have said hello. One place is the writer's.
  static constexpr std::size_t kGreetedMax = wire::kClientsMax;

  /// Handles frames that a session has received, as many as a turn allows. Returns whether it has
  /// more for the next turn.
  bool handle(Session *s);

  /// The session is gone.
  void forget(Session *s);

  /// Runs the host to a time, pushing what the sessions subscribed to.
  void advance(Ps to, const std::vector<Session *> &sessions);

  /// Continues the writer's advance, for at most slice; false when no advance is
  /// under way.
  bool work(Ps slice, const std::vector<Session *> &sessions);

 private:
  void greet(Session *s, bool writer);
  void leave_writer();
  void dispatch(Session *s, const wire::Header &h, const unsigned char *payload);
  void hello(Session *s, const wire::Header &h);
  wire::Status access(bool writer, std::uint16_t op, std::uint64_t offset, std::uint64_t *value);
  void batch(Session *s, const wire::Header &h, const unsigned char *payload, std::size_t bytes);
  wire::Status demand(const unsigned char *payload, std::size_t bytes);
  void apply(const std::pair<std::uint32_t, std::uint32_t> &key, const wire::DemandRecord &r);
  void begin_advance(Session *s, const wire::Header &h);
  void subscribe(Session *s, const wire::Header &h);
  void push(Session *s, std::string *json);
  void reply(Session *s, const wire::Header &request, wire::Status status, std::uint64_t a = 0,
             std::uint64_t b = 0, const void *payload = nullptr, std::size_t bytes = 0);

  Host &host_;
  Mode mode_;
  Session *writer_ = nullptr;
  Ps target_ = 0;  // of the writer's advance
  std::size_t readers_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> demands_;  // to agents
  bool inherited_ = false;                                                  // from another writer
  std::vector<std::size_t> free_agents_;                                    // of ended demands
};

}  // namespace drfq

#endif
