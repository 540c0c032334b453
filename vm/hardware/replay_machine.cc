// SPDX-License-Identifier: GPL-2.0-only
// Computes the times of a modelled machine again from its input log (vm run --input-log).
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "replay.hh"

namespace {

constexpr const char *kUsage =
    "Usage: replay_machine LOG [TRANSFERS]\n"
    "\n"
    "Computes what happened beyond the private caches of a modelled machine again, from the LOG\n"
    "that `vm run --input-log LOG` wrote, and compares when transfers finished and what cores' "
    "clocks\n"
    "showed. TRANSFERS gets a line of CSV for each transfer of the storage device.\n"
    "\n"
    "Exit status: 0 if all is the same, 1 if not or if the log is damaged, 2 for wrong usage.\n";

std::ofstream open_output(const std::string &path) {
  std::ofstream out(path);
  if (!out) throw std::runtime_error(path + ": " + std::strerror(errno));
  return out;
}

int run(const std::string &path, const char *transfers) {
  std::ifstream log(path, std::ios::binary);
  if (!log) throw std::runtime_error(path + ": " + std::strerror(errno));
  std::ofstream out;
  if (transfers != nullptr) out = open_output(transfers);
  const drfq::hardware::Replayed r =
      drfq::hardware::replay(log, 0, transfers != nullptr ? &out : nullptr);
  std::cout << r.transfers << " transfers finished and " << r.clocks
            << " clocks of cores stood as the log says\n";
  if (r.difference.empty()) return 0;
  std::cout << "first difference: " << r.difference << '\n';
  return 1;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "-h" || first == "--help") {
    std::cout << kUsage;
    return 0;
  }
  if (argc < 2 || argc > 3 || first.empty() || first[0] == '-') {
    std::cerr << kUsage;
    return 2;
  }
  try {
    return run(first, argc == 3 ? argv[2] : nullptr);
  } catch (const std::exception &e) {
    std::cerr << "replay_machine: " << first << ": " << e.what() << '\n';
    return 1;
  }
}
