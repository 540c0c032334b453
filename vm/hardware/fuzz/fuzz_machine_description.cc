// SPDX-License-Identifier: GPL-2.0-only
// Parses arbitrary text as a machine description and runs a little work on each accepted machine.
#include <algorithm>
#include <sstream>

#include "config/toml.hh"
#include "hardware_model.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  using namespace drfq;
  using namespace drfq::hardware;
  const std::string text(reinterpret_cast<const char *>(data), std::min<std::size_t>(size, 4096));
  try {
    const MachineDescription d = load_machine_description("fuzz", text);
    HardwareModel m(d);
    m.start(kPsPerMs);
    std::uint64_t insns = 0;
    for (unsigned i = 0; i < 400; i++) {
      const unsigned core = i % std::min(d.cores, 3u);
      m.access(core, insns, i * 4160 % 100000, 8, i % 3 ? AccessKind::load : AccessKind::store,
               drfq::hardware::Ring::user);
      insns += i % 7;
      if (i % 50 == 0) m.drain(core, {insns, 0});
    }
    for (std::uint32_t leaf = 0; leaf < 0x20; leaf++)
      for (std::uint32_t sub = 0; sub < 5; sub++) m.cpuid(0, leaf, sub, {});
    std::stringstream line;
    m.write_ground_truth(line);
  } catch (const toml::Error &) {
  }
  return 0;
}
