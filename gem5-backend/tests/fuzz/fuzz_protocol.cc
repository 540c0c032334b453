// SPDX-License-Identifier: GPL-2.0-only
// Two clients send arbitrary bytes in arbitrary pieces to a service. The first
// byte of a piece chooses the client, the second is its length.
#include <algorithm>
#include <cstdlib>

#include "host/service.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  using namespace drfq;
  ModelHost host{MemoryOptions()};
  Service service(host, Service::Mode::lock_step);
  Session clients[2];
  const std::vector<Session *> all{&clients[0], &clients[1]};
  // Both have sent hello; without it the service answers little else.
  for (unsigned i = 0; i < 2; i++) {
    wire::Header h;
    h.op = static_cast<std::uint16_t>(wire::Op::hello);
    h.a = wire::kVersion;
    h.b = i;
    clients[i].in.resize(wire::kHeaderBytes);
    wire::encode(h, clients[i].in.data());
    service.handle(&clients[i]);
  }
  for (std::size_t at = 0; at + 2 <= size;) {
    Session &s = clients[data[at] % 2];
    const std::size_t n = std::min<std::size_t>(data[at + 1], size - at - 2);
    s.in.insert(s.in.end(), data + at + 2, data + at + 2 + n);
    at += 2 + n;
    service.handle(&s);
    // A bounded part of the work, because one input could ask for minutes of it.
    for (int i = 0; i < 2 && service.work(10 * kPsPerUs, all); i++) {
    }
    for (Session *c : all) {
      if (c->out.size() > Session::kOutMax + wire::kFrameMax) std::abort();
      if (data[at - 1] % 2 != 0) c->out.clear();
    }
  }
  for (Session *c : all) service.forget(c);
  return 0;
}
