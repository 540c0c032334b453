// SPDX-License-Identifier: GPL-2.0-only
// Plays arbitrary records back on the machine `disk`.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "input_log.hh"
#include "replay.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  using namespace drfq::hardware;
  static const std::string description = [] {
    std::ifstream in(std::string(MACHINES) + "/disk.toml");
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  std::istringstream log(
      std::string(InputLog::kFormat) + " " + std::to_string(description.size()) + "\n" +
      description +
      std::string(reinterpret_cast<const char *>(data), std::min<std::size_t>(size, 4096)));
  try {
    replay(log, size % 2, nullptr);
  } catch (const std::runtime_error &) {
  }
  return 0;
}
