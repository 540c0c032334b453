// SPDX-License-Identifier: GPL-2.0-only
#include "host/socket.hh"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace drfq {
namespace {

[[noreturn]] void fail(const std::string &what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void make_directory(const std::string &path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  const std::string dir = path.substr(0, slash);
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make " + dir);
}

/// Removes a socket file on which no server listens.
void remove_stale(const std::string &path, const sockaddr_un &address) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return;
  if (!S_ISSOCK(st.st_mode))
    throw std::runtime_error(path + " exists and is no socket; choose another path");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool alive =
      fd >= 0 && connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  if (alive) throw std::runtime_error("a server listens on " + path + " already");
  if (unlink(path.c_str()) != 0) fail("cannot remove the stale " + path);
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string &path) : path_(path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw std::runtime_error("a socket path has 1 to 107 characters");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  make_directory(path);
  remove_stale(path, address);
  fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) fail("cannot make a socket");
  const mode_t old = umask(0177);
  const int bound = bind(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof address);
  umask(old);
  if (bound != 0 || listen(fd_, SOMAXCONN) != 0) {
    const int why = errno;
    close(fd_);
    errno = why;
    fail("cannot listen on " + path);
  }
}

ListeningSocket::~ListeningSocket() {
  close(fd_);
  unlink(path_.c_str());
}

int ListeningSocket::accept() const {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return -1;
  ucred peer = {};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (known && (peer.uid == geteuid() || peer.uid == 0)) return fd;
  close(fd);
  return -1;
}

}  // namespace drfq
