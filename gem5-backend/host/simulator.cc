// SPDX-License-Identifier: GPL-2.0-only
#include "host/simulator.hh"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>

#include "config/memory_table.hh"

namespace drfq {
namespace {

/// One word for the shell.
std::string quoted(const std::string &s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Figures simulate(const std::string &command, const std::string &file, std::size_t point,
                 const Scenario &s) {
  const std::string line = command + " experiment " + quoted(file) + " " + std::to_string(point) +
                           " " + std::to_string(s.seed) + " " + std::to_string(s.agents.size()) +
                           " " + quoted(memory_json(s.memory));
  std::FILE *pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start the simulator");
  std::string all;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) != 0;)
    all.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (status != 0) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    throw std::runtime_error("the simulator ended with status " + std::to_string(code) +
                             "; its messages are above");
  }
  Figures figures;
  std::istringstream lines(all);
  for (std::string text; std::getline(lines, text);) {
    std::istringstream words(text);
    std::string word, name;
    double value = 0;
    if (words >> word >> name >> value && word == "figure") figures[name] = value;
  }
  if (figures.empty()) throw std::runtime_error("the simulator printed no figure");
  return figures;
}

}  // namespace drfq
