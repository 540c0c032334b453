// SPDX-License-Identifier: GPL-2.0-only
// drfq-mc bench --socket: register round trips a second of a running server.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cli/commands.hh"
#include "core/registers.hh"
#include "core/wire.hh"

namespace drfq {
namespace {

class Connection {
 public:
  explicit Connection(const std::string &path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw std::runtime_error("the path is too long");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
      if (fd_ >= 0) close(fd_);
      throw std::runtime_error("no server answers on " + path);
    }
  }
  ~Connection() { close(fd_); }
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  /// Sends a frame of one operation and waits for the reply.
  void call(wire::Op op, std::uint64_t a, const std::vector<unsigned char> &payload = {}) {
    wire::Header h;
    h.length = static_cast<std::uint32_t>(wire::kHeaderBytes + payload.size());
    h.op = static_cast<std::uint16_t>(op);
    h.a = a;
    buffer_.resize(h.length);
    wire::encode(h, buffer_.data());
    std::copy(payload.begin(), payload.end(), buffer_.begin() + wire::kHeaderBytes);
    if (send(fd_, buffer_.data(), buffer_.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(buffer_.size()))
      throw std::runtime_error("the server went away");
    // The replies of the operations used here are as long as the requests.
    for (std::size_t got = 0; got < buffer_.size();) {
      const ssize_t n = recv(fd_, buffer_.data() + got, buffer_.size() - got, 0);
      if (n <= 0) throw std::runtime_error("the server went away");
      got += static_cast<std::size_t>(n);
    }
    wire::Header reply;
    if (wire::find_frame(buffer_.data(), buffer_.size(), &reply) != wire::Parse::frame ||
        reply.status != 0)
      throw std::runtime_error("the server refused");
  }

 private:
  int fd_;
  std::vector<unsigned char> buffer_;
};

template <class Call>
double per_second(Call call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double s = 0;
  unsigned n = 0;
  do {
    for (unsigned i = 0; i < 100; i++) call();
    n += 100;
    s = std::chrono::duration<double>(Clock::now() - start).count();
  } while (s < 1);
  return n / s;
}

}  // namespace

int bench_socket(const std::string &path) {
  Connection c(path);
  c.call(wire::Op::hello, wire::kVersion);
  constexpr std::size_t kRecords = 64;
  std::vector<unsigned char> batch(kRecords * wire::kBatchRecordBytes);
  wire::BatchRecord r;
  r.op = static_cast<std::uint16_t>(wire::Op::peek);
  for (std::size_t i = 0; i < kRecords; i++) {
    r.offset = mmio::kTraffic + 8 * i;
    wire::encode(r, &batch[i * wire::kBatchRecordBytes]);
  }
  std::printf("| request | per second |\n|---|---:|\n");
  std::printf("| peek | %.0f |\n", per_second([&] { c.call(wire::Op::peek, mmio::kTraffic); }));
  const double batches = per_second([&] { c.call(wire::Op::batch, 0, batch); });
  std::printf("| batch of 64 peeks | %.0f (%.2f M registers) |\n", batches,
              batches * kRecords / 1e6);
  return 0;
}

}  // namespace drfq
