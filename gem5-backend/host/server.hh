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
  double rate = 1;  ///< free-running: simulated seconds per second, at most
};

class Server {
 public:
  /// The host outlives the server.
  Server(const ServerOptions &o, Host &host);
  ~Server();

  /// Serves until SIGINT or SIGTERM, or a fatal error.
  void serve();

 private:
  struct Client {
    int fd = -1;
    Session session;
  };
  static constexpr std::size_t kClientsMax = 64;

  void accept_clients();
  void receive(Client *c);
  void send(Client *c);
  void drop_closed();
  void poll_once(int timeout_ms);
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
  std::vector<std::unique_ptr<Client>> clients_;
  double wall_s_ = 0;  // of the last free_run()
};

}  // namespace drfq

#endif
