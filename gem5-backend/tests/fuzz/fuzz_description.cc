// SPDX-License-Identifier: GPL-2.0-only
// Arbitrary text as an experiment: the parser, and every description that it
// accepts as a memory under a short burst of traffic.
#include <algorithm>

#include "config/memory_table.hh"
#include "host/results.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  using namespace drfq;
  const std::string text(reinterpret_cast<const char *>(data), std::min<std::size_t>(size, 4096));
  try {
    const toml::Document doc = toml::parse("fuzz", text);
    Memory memory(load_memory(doc));
    Packet p;
    for (unsigned i = 0; i < 200; i++) {
      p.address = i * 4160;
      p.dir = i % 3 ? Dir::read : Dir::write;
      memory.submit(p, memory.now() + 1000);
    }
    memory.drain(true);
    for (int i = 0; i < 5000 && memory.next_event() != kNever; i++)
      memory.advance(memory.next_event());
    load_checked_experiment("fuzz", text);
  } catch (const toml::Error &) {
  }
  return 0;
}
