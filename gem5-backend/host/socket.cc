// SPDX-License-Identifier: GPL-2.0-only
#include "host/socket.hh"

#include <fcntl.h>
#include <sys/file.h>
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

/// Makes the directory of a path, and returns the path.
const std::string &with_directory(const std::string &path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return path;
  const std::string dir = path.substr(0, slash);
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make " + dir);
  return path;
}

sockaddr_un address_of(const std::string &path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw std::runtime_error("a socket path has 1 to 107 characters");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

/// Why a connection to a socket fails; 0: it does not.
int answer_of(const sockaddr_un &address) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) fail("cannot make a socket");
  const int result = connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address);
  const int why = result == 0 ? 0 : errno;
  close(fd);
  return why;
}

/// Removes a socket file that no program answers. The lock of the path is held, so no other server
/// can take the name in between.
void remove_stale(const std::string &path, const sockaddr_un &address) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return;
  if (!S_ISSOCK(st.st_mode))
    throw std::runtime_error(path + " exists and is no socket; choose another path");
  const int why = answer_of(address);
  if (why == ENOENT) return;
  if (why == 0) throw std::runtime_error("a server listens on " + path + " already");
  // Other errors come from a socket in use: of another type, or with a full backlog.
  if (why != ECONNREFUSED)
    throw std::runtime_error("another program uses " + path + " (" + std::strerror(why) +
                             "); end it, or choose another path");
  if (unlink(path.c_str()) != 0) fail("cannot remove the stale " + path);
}

}  // namespace

PathLock::PathLock(const std::string &path) : name_(path + ".lock") {
  for (;;) {
    fd_ = open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd_ < 0) fail("cannot open the lock " + name_);
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int why = errno;
      close(fd_);
      if (why == EWOULDBLOCK) throw std::runtime_error("a server listens on " + path + " already");
      errno = why;
      fail("cannot lock " + name_);
    }
    // The last holder may have removed the file after we opened it.
    struct stat locked, named;
    if (fstat(fd_, &locked) == 0 && lstat(name_.c_str(), &named) == 0 &&
        locked.st_dev == named.st_dev && locked.st_ino == named.st_ino)
      return;
    close(fd_);
  }
}

PathLock::~PathLock() {
  struct stat locked, named;
  if (fstat(fd_, &locked) == 0 && lstat(name_.c_str(), &named) == 0 &&
      locked.st_dev == named.st_dev && locked.st_ino == named.st_ino)
    unlink(name_.c_str());
  close(fd_);
}

bool ListeningSocket::identify(const std::string &path, Identity *to) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) return false;
  *to = {st.st_dev, st.st_ino, st.st_mtim};
  return true;
}

ListeningSocket::ListeningSocket(const std::string &path)
    : path_(path), lock_(with_directory(path)) {
  const sockaddr_un address = address_of(path);
  remove_stale(path, address);
  fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) fail("cannot make a socket");
  const mode_t old = umask(0177);
  const int bound = bind(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof address);
  umask(old);
  if (bound != 0 || !identify(path, &ours_) || listen(fd_, SOMAXCONN) != 0) {
    const int why = errno;
    close(fd_);
    errno = why;
    fail("cannot listen on " + path);
  }
}

ListeningSocket::~ListeningSocket() {
  close(fd_);
  Identity there;
  if (identify(path_, &there) && there.device == ours_.device && there.inode == ours_.inode &&
      there.made.tv_sec == ours_.made.tv_sec && there.made.tv_nsec == ours_.made.tv_nsec)
    unlink(path_.c_str());
}

Accepted ListeningSocket::accept() const {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Accepted::Kind::none, -1};
    const bool exhausted =
        errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return {exhausted ? Accepted::Kind::exhausted : Accepted::Kind::refused, -1};
  }
  ucred peer = {};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (known && (peer.uid == geteuid() || peer.uid == 0)) return {Accepted::Kind::client, fd};
  close(fd);
  return {Accepted::Kind::refused, -1};
}

}  // namespace drfq
