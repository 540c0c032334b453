// SPDX-License-Identifier: GPL-2.0-only
// A listening Unix socket that only its owner can reach.
#ifndef DRFQ_SOCKET_HH
#define DRFQ_SOCKET_HH

#include <string>

namespace drfq {

class ListeningSocket {
 public:
  /// Makes the socket file with mode 0600, and its directory with 0700 when it
  /// is missing. A stale socket is replaced; one that answers is an error.
  /// Throws std::runtime_error.
  explicit ListeningSocket(const std::string &path);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket &) = delete;
  ListeningSocket &operator=(const ListeningSocket &) = delete;

  int fd() const { return fd_; }

  /// Next client, or -1: none waits, or it is another user's (and not root's).
  int accept() const;

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace drfq

#endif
