// SPDX-License-Identifier: GPL-2.0-only
#include "host/server.hh"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
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

/// How long no client is admitted after descriptors ran out.
constexpr double kBackOffS = 0.1;

/// How far a free-running server may be behind, in seconds of wall time. What is beyond is dropped,
/// or a model that is too slow might never catch up. At a high rate 10 simulated ms are less than a
/// turn takes, which sleeps for 1 ms and simulates for 2 ms.
double behind_max_s(double rate) { return std::max(0.01 / rate, 0.005); }

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
  while (!stopped) turn(kIdleMs);
}

void Server::turn(int idle_ms) {
  int timeout = idle_ms;
  if (service_.mode() == Service::Mode::free_running)
    timeout = std::min(idle_ms, free_run());
  else if (service_.work(kSlice, sessions()))
    timeout = 0;
  poll_once(more_ ? 0 : time_left_ms(timeout));
}

/// Follows the wall clock as far as the model keeps up; returns how long to sleep.
int Server::free_run() {
  const double begun = wall();
  const double ps_per_s = options_.rate * 1e12;
  // Most models are faster than the clock without traffic, so they need drop no time then.
  const bool quiet = service_.next_event() == kNever;
  const double behind_max = quiet ? HUGE_VAL : behind_max_s(options_.rate);
  const double behind = std::min(begun - wall_s_, behind_max) * ps_per_s;
  if (service_.left() == 0)
    throw std::runtime_error("simulated time ends after 213 days; start the server again");
  const Ps end =
      service_.now() + static_cast<Ps>(std::min(behind, static_cast<double>(service_.left())));
  // Most hosts simulate any time without traffic at once. On others, and with subscriptions, a
  // slice that is as long as all before it delays clients by another turn at most.
  for (Ps slice = kSlice; service_.now() < end && wall() - begun < 0.002; slice *= quiet ? 2 : 1)
    service_.advance(service_.now() + std::min(end - service_.now(), slice), sessions());
  // What the model did not reach in its turn is late, and dropped only beyond the bound.
  const double left = service_.now() < end ? static_cast<double>(end - service_.now()) : 0.0;
  wall_s_ = begun - std::min(left / ps_per_s, behind_max);
  if (quiet && left > 0) return 0;
  for (const Session *s : sessions())
    if (s->every != 0) return 1;
  return service_.next_event() == kNever ? kIdleMs : 1;
}

std::vector<Session *> Server::sessions() const {
  std::vector<Session *> all;
  for (const auto &c : clients_) all.push_back(&c->session);
  return all;
}

/// A sleep of at most timeout_ms that ends when a client's patience or the back-off does.
int Server::time_left_ms(int timeout_ms) const {
  const double now = wall();
  double until = now + timeout_ms / 1e3;
  if (accept_at_ > now) until = std::min(until, accept_at_);
  for (const auto &c : clients_)
    if (c->timed()) until = std::min(until, c->since + options_.hello_s);
  return std::max(0, static_cast<int>(std::ceil((until - now) * 1e3)));
}

void Server::poll_once(int timeout_ms) {
  const bool accepts = wall() >= accept_at_;
  std::vector<pollfd> fds{{socket_.fd(), static_cast<short>(accepts ? POLLIN : 0), 0}};
  for (const auto &c : clients_) {
    const Session &s = c->session;
    const bool reads = !s.closing && !s.ended && !s.congested() && s.in.size() < kInMax;
    const short want = static_cast<short>((reads ? POLLIN : 0) | (s.out.empty() ? 0 : POLLOUT));
    fds.push_back({c->fd, want, 0});
  }
  if (poll(fds.data(), fds.size(), timeout_ms) < 0) {
    if (errno == EINTR) return;
    throw std::runtime_error("poll failed");
  }
  // Bring time up to date before a reply carries it.
  if (service_.mode() == Service::Mode::free_running && timeout_ms > 1) free_run();
  more_ = false;
  for (std::size_t i = 1; i < fds.size(); i++) serve_client(clients_[i - 1].get(), fds[i].revents);
  // Before clients are accepted: the place of a writer that hung up is free.
  drop_closed();
  if (fds[0].revents & POLLIN) accept_clients();
  drop_closed();
}

void Server::serve_client(Client *c, short events) {
  Session &s = c->session;
  // POLLHUP: the client has closed both directions. Until then it may still read.
  if (events & (POLLHUP | POLLERR)) s.gone = true;
  if (events & (POLLIN | POLLHUP | POLLERR)) receive(c);
  // Sending first: a congested session handles nothing.
  send(c);
  more_ = service_.handle(&s) || more_;
  send(c);
}

void Server::accept_clients() {
  for (unsigned n = 0; n < kAcceptMax;) {
    const Accepted a = socket_.accept();
    if (a.kind == Accepted::Kind::none) return;
    if (a.kind == Accepted::Kind::exhausted) {
      if (drop_oldest_silent()) continue;
      // The client stays in the backlog, so poll() would return at once for ever.
      accept_at_ = wall() + kBackOffS;
      return;
    }
    n++;
    if (a.kind == Accepted::Kind::refused) continue;
    std::size_t silent = 0;
    for (const auto &c : clients_) silent += c->fd >= 0 && !c->session.greeted;
    if (silent >= kSilentMax) drop_oldest_silent();
    clients_.push_back(std::make_unique<Client>());
    clients_.back()->fd = a.fd;
    clients_.back()->since = wall();
    // Its greeting may be there already; then no later client can push it out.
    serve_client(clients_.back().get(), POLLIN);
  }
}

/// Makes room; false when every client has said hello.
bool Server::drop_oldest_silent() {
  for (auto &c : clients_) {
    if (c->fd < 0 || c->session.greeted) continue;
    close(c->fd);
    c->fd = -1;
    return true;
  }
  return false;
}

void Server::receive(Client *c) {
  Session &s = c->session;
  if (s.in.size() >= kInMax) return;
  unsigned char buffer[16384];
  const ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
  if (n > 0) {
    if (!s.closing) s.in.insert(s.in.end(), buffer, buffer + n);
  } else if (n == 0) {
    s.ended = true;
  } else if (errno != EAGAIN && errno != EINTR) {
    s.ended = s.gone = true;
  }
}

void Server::send(Client *c) {
  Session &s = c->session;
  if (s.out.empty()) return;
  if (s.gone) return s.out.clear();
  const ssize_t n = ::send(c->fd, s.out.data(), s.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) {
    s.out.erase(s.out.begin(), s.out.begin() + n);
  } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
    s.out.clear();
    s.gone = true;
  }
}

void Server::drop_closed() {
  const double now = wall();
  for (auto &c : clients_) {
    const Session &s = c->session;
    if (c->fd < 0) continue;
    if (s.closing && !c->leaving) {
      c->leaving = true;
      c->since = now;
    }
    const bool late = c->timed() && now >= c->since + options_.hello_s;
    if (!(s.closing && s.out.empty()) && !late) continue;
    close(c->fd);
    c->fd = -1;
  }
  for (auto &c : clients_)
    if (c->fd < 0) service_.forget(&c->session);
  clients_.erase(
      std::remove_if(clients_.begin(), clients_.end(), [](const auto &c) { return c->fd < 0; }),
      clients_.end());
}

}  // namespace drfq
