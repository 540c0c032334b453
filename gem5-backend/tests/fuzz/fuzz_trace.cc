// SPDX-License-Identifier: GPL-2.0-only
// Arbitrary text as a trace, replayed with bounded gaps.
#include <algorithm>
#include <sstream>

#include "model/trace.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  using namespace drfq;
  std::stringstream text(std::string(reinterpret_cast<const char *>(data), size));
  Memory memory{MemoryOptions()};
  try {
    TraceReader reader("fuzz", text);
    for (TraceRecord r; reader.next(&r);) {
      memory.advance(std::min(r.at, memory.now() + kPsPerMs));
      if (r.what == TraceRecord::What::write)
        memory.controller().registers().write(r.offset, r.value);
      else if (r.packet.bytes <= memory.max_packet_bytes())
        memory.submit(r.packet, memory.now());
    }
  } catch (const std::runtime_error &) {
  }
  memory.drain(true);
  while (memory.next_event() != kNever) memory.advance(memory.next_event());
  return 0;
}
