// SPDX-License-Identifier: GPL-2.0-only
// A listening Unix socket that only its owner can reach, and that no other server takes over.
#ifndef DRFQ_SOCKET_HH
#define DRFQ_SOCKET_HH

#include <sys/types.h>

#include <ctime>
#include <string>

namespace drfq {

/// The lock of a socket's path: the file PATH.lock, locked while a server uses the path. It is
/// removed at the end, and every holder makes sure that its lock is the file that has the name.
class PathLock {
 public:
  /// Throws std::runtime_error when another server holds it.
  explicit PathLock(const std::string &path);
  ~PathLock();
  PathLock(const PathLock &) = delete;
  PathLock &operator=(const PathLock &) = delete;

 private:
  std::string name_;
  int fd_ = -1;
};

/// What accept() found.
struct Accepted {
  enum class Kind {
    none,       ///< no client waits
    refused,    ///< it was another user's (and not root's), or has gone
    exhausted,  ///< no descriptor or memory is free: it waits on
    client,
  } kind = Kind::none;
  int fd = -1;
};

class ListeningSocket {
 public:
  /// Makes the socket file with mode 0600, and its directory with 0700 when it
  /// is missing. A stale socket is replaced; one that answers is an error.
  /// Throws std::runtime_error.
  explicit ListeningSocket(const std::string &path);
  /// Removes the socket file, unless another file has its name now.
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket &) = delete;
  ListeningSocket &operator=(const ListeningSocket &) = delete;

  int fd() const { return fd_; }

  Accepted accept() const;

 private:
  /// What tells a file from a later one of the same name.
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    timespec made = {};
  };
  static bool identify(const std::string &path, Identity *to);

  std::string path_;
  PathLock lock_;
  Identity ours_;
  int fd_ = -1;
};

}  // namespace drfq

#endif
