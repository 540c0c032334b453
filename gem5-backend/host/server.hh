// SPDX-License-Identifier: GPL-2.0-only
// The poll loop between a listening socket and the service.
#ifndef DRFQ_SERVER_HH
#define DRFQ_SERVER_HH

#include <memory>
#include <vector>

#include "host/service.hh"
#include "host/socket.hh"

namespace drfq {

struct ServerOptions {
  std::string path;
  Service::Mode mode = Service::Mode::lock_step;
  double rate = 1;     ///< free-running: simulated seconds per second, at most
  double hello_s = 2;  ///< how long a client may be silent before it says hello
};

class Server {
 public:
  /// Clients that have not said hello. The oldest makes room for a new one.
  static constexpr std::size_t kSilentMax = 16;
  /// Clients that are admitted in one turn.
  static constexpr unsigned kAcceptMax = 16;

  /// The host outlives the server.
  Server(const ServerOptions &o, Host &host);
  ~Server();

  /// Serves until SIGINT or SIGTERM, or a fatal error.
  void serve();

  /// One turn: lets time pass, serves every client once, admits new ones. Of one client it handles
  /// what Service::Turn allows, so nothing that a client does delays others for longer. Without
  /// work it sleeps, for idle_ms at most.
  void turn(int idle_ms);

  std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    int fd = -1;
    double since = 0;  ///< when it came, or when it was told to go (wall, seconds)
    bool leaving = false;
    Session session;
    /// Whether its place is limited in time: it is silent, or does not read why it must go.
    bool timed() const { return !session.greeted || (leaving && !session.ended); }
  };

  void accept_clients();
  bool drop_oldest_silent();
  void serve_client(Client *c, short events);
  void receive(Client *c);
  void send(Client *c);
  void drop_closed();
  void poll_once(int timeout_ms);
  int time_left_ms(int timeout_ms) const;
  int free_run();
  std::vector<Session *> sessions() const;

  /// Catches SIGINT and SIGTERM. It is built before the socket, so that a client that has
  /// connected may signal the server at once.
  struct Signals {
    Signals();
  };

  Signals signals_;
  ServerOptions options_;
  ListeningSocket socket_;
  Service service_;
  std::vector<std::unique_ptr<Client>> clients_;  // in the order of their arrival
  double wall_s_ = 0;                             // of the last free_run()
  double accept_at_ = 0;                          // no client is admitted before (wall, seconds)
  bool more_ = false;                             // a client has more for the next turn
};

}  // namespace drfq

#endif
