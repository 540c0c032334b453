// SPDX-License-Identifier: GPL-2.0-only
#include "host/server.hh"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>

namespace drfq {
namespace {

volatile std::sig_atomic_t stopped = 0;

/// Simulated time between two looks at the sockets.
constexpr Ps kSlice = 100 * kPsPerUs;
/// The server receives nothing from a client while this many of its bytes wait to be handled.
constexpr std::size_t kInMax = 2 * wire::kFrameMax;

/// The longest sleep. A signal that comes just before poll() is noticed after it.
constexpr int kIdleMs = 500;

double wall() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Server::Signals::Signals() {
  struct sigaction act = {};
  act.sa_handler = [](int) { stopped = 1; };
  sigaction(SIGINT, &act, nullptr);
  sigaction(SIGTERM, &act, nullptr);
}

Server::Server(const ServerOptions &o, Host &host)
    : options_(o), socket_(o.path), service_(host, o.mode), wall_s_(wall()) {}

Server::~Server() {
  for (const auto &c : clients_)
    if (c->fd >= 0) close(c->fd);
}

void Server::serve() {
  std::cout << "listening on " << options_.path << std::endl;
  while (!stopped) {
    int timeout = kIdleMs;
    if (service_.mode() == Service::Mode::free_running)
      timeout = free_run();
    else if (service_.work(kSlice, sessions()))
      timeout = 0;
    poll_once(timeout);
  }
}

/// Follows the wall clock as far as the model keeps up; returns how long to sleep.
int Server::free_run() {
  // Wall time that the model cannot keep up with is dropped, or it might never catch up.
  constexpr double kBehindMax = 0.01;
  const double elapsed = std::min(wall() - wall_s_, kBehindMax / options_.rate);
  const double idle = wall() - wall_s_ - elapsed;
  const bool quiet = service_.next_event() == kNever;
  const Ps want = static_cast<Ps>((quiet ? elapsed + idle : elapsed) * options_.rate * 1e12);
  const double begun = wall();
  const Ps end = service_.now() + want;
  while (service_.now() < end && wall() - begun < 0.002)
    service_.advance(std::min(end, service_.now() + kSlice), sessions());
  wall_s_ = begun;
  for (const Session *s : sessions())
    if (s->every != 0) return 1;
  return service_.next_event() == kNever ? kIdleMs : 1;
}

std::vector<Session *> Server::sessions() const {
  std::vector<Session *> all;
  for (const auto &c : clients_) all.push_back(&c->session);
  return all;
}

void Server::poll_once(int timeout_ms) {
  std::vector<pollfd> fds{{socket_.fd(), POLLIN, 0}};
  for (const auto &c : clients_) {
    const bool reads =
        !c->session.closing && !c->session.congested() && c->session.in.size() < kInMax;
    const short want =
        static_cast<short>((reads ? POLLIN : 0) | (c->session.out.empty() ? 0 : POLLOUT));
    fds.push_back({c->fd, want, 0});
  }
  if (poll(fds.data(), fds.size(), timeout_ms) < 0) {
    if (errno == EINTR) return;
    throw std::runtime_error("poll failed");
  }
  // Bring time up to date before a reply carries it.
  if (service_.mode() == Service::Mode::free_running && timeout_ms > 1) free_run();
  for (std::size_t i = 1; i < fds.size(); i++) {
    Client *c = clients_[i - 1].get();
    if (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) receive(c);
    // Sending first: a congested session handles nothing.
    send(c);
    service_.handle(&c->session);
    send(c);
  }
  if (fds[0].revents & POLLIN) accept_clients();
  drop_closed();
}

void Server::accept_clients() {
  for (int fd = socket_.accept(); fd >= 0; fd = socket_.accept()) {
    if (clients_.size() == kClientsMax) {
      close(fd);
      continue;
    }
    clients_.push_back(std::make_unique<Client>());
    clients_.back()->fd = fd;
  }
}

void Server::receive(Client *c) {
  unsigned char buffer[16384];
  const ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
  if (n > 0) {
    if (!c->session.closing) c->session.in.insert(c->session.in.end(), buffer, buffer + n);
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    c->session.out.clear();
    c->session.closing = true;
  }
}

void Server::send(Client *c) {
  Session &s = c->session;
  if (s.out.empty()) return;
  const ssize_t n = ::send(c->fd, s.out.data(), s.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) {
    s.out.erase(s.out.begin(), s.out.begin() + n);
  } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
    s.out.clear();
    s.closing = true;
  }
}

void Server::drop_closed() {
  for (auto &c : clients_) {
    if (!c->session.closing || !c->session.out.empty()) continue;
    service_.forget(&c->session);
    close(c->fd);
    c->fd = -1;
  }
  clients_.erase(
      std::remove_if(clients_.begin(), clients_.end(), [](const auto &c) { return c->fd < 0; }),
      clients_.end());
}

}  // namespace drfq
