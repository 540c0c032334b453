// SPDX-License-Identifier: GPL-2.0-only
// Computes the times of a modelled machine again from its input log (vm run --input-log).
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "replay.hh"

namespace {

constexpr const char *kUsage =
    "Usage: replay_machine [--skip N] LOG [TRANSFERS]\n"
    "\n"
    "Computes what happened beyond the private caches of a modelled machine again, from the LOG\n"
    "that `vm run --input-log LOG` wrote, and compares when transfers finished and what cores'\n"
    "clocks showed. TRANSFERS gets a line of CSV for each transfer of the storage device.\n"
    "\n"
    "With --skip N, playback happens N times less often than it did, and clocks are not compared.\n"
    "This shows what the host's time decides: times differ where cores sleep and wake up, and\n"
    "where masks of the cache or throttles are written.\n"
    "\n"
    "Exit status: 0 if all is the same, 1 if not or if the log is damaged, 2 for wrong usage.\n";

std::ofstream open_output(const std::string &path) {
  std::ofstream out(path);
  if (!out) throw std::runtime_error(path + ": " + std::strerror(errno));
  return out;
}

int run(const std::string &path, unsigned skip, const char *transfers) {
  std::ifstream log(path, std::ios::binary);
  if (!log) throw std::runtime_error(std::strerror(errno));
  std::ofstream out;
  if (transfers != nullptr) out = open_output(transfers);
  const drfq::hardware::Replayed r =
      drfq::hardware::replay(log, skip, transfers != nullptr ? &out : nullptr);
  if (transfers != nullptr && !out.flush())
    throw std::runtime_error(std::string(transfers) + " cannot be written");
  std::cout << r.transfers << " transfers finished and " << r.clocks
            << " clocks of cores stood as the log says\n";
  if (r.difference.empty()) return 0;
  std::cout << "first difference: " << r.difference << '\n';
  return 1;
}

/// Whether both paths lead to one file. One that does not exist yet is another file.
bool is_one_file(const std::string &a, const std::string &b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

/// Reads a number of at most 9 digits.
bool read_number(const std::string &text, unsigned *out) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    return false;
  *out = static_cast<unsigned>(std::stoul(text));
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  unsigned skip = 0;
  if (!words.empty() && (words[0] == "-h" || words[0] == "--help")) {
    std::cout << kUsage;
    return 0;
  }
  bool usable = true;
  if (!words.empty() && words[0] == "--skip") {
    usable = words.size() > 1 && read_number(words[1], &skip);
    words.erase(words.begin(), words.begin() + (usable ? 2 : 1));
  }
  if (!usable || words.empty() || words.size() > 2 || words[0].empty() || words[0][0] == '-') {
    std::cerr << kUsage;
    return 2;
  }
  if (words.size() == 2 && is_one_file(words[0], words[1])) {
    std::cerr << "replay_machine: " << words[1]
              << ": TRANSFERS is the LOG itself, which would be lost: name another file\n";
    return 2;
  }
  try {
    return run(words[0], skip, words.size() == 2 ? words[1].c_str() : nullptr);
  } catch (const std::exception &e) {
    std::cerr << "replay_machine: " << words[0] << ": " << e.what() << '\n';
    return 1;
  }
}
