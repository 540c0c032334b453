// SPDX-License-Identifier: GPL-2.0-only
// Runs programs on the hardware model in tests, in place of an emulator. A program is a memory
// access pattern. All cores take turns on one thread.
#ifndef DRFQ_HARDWARE_PROGRAM_RUNNER_HH
#define DRFQ_HARDWARE_PROGRAM_RUNNER_HH

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "hardware_model.hh"

namespace drfq::hardware {

inline std::string read_file(const std::string &path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A machine of vm/machines.
inline MachineDescription shipped(const std::string &name) {
  const std::string path = std::string(MACHINES) + "/" + name + ".toml";
  return load_machine_description(path, read_file(path));
}

/// The number after a key in a line of ground truth, searched from a position.
inline std::uint64_t number_after(const std::string &line, const std::string &name,
                                  std::size_t from = 0) {
  const std::size_t at = line.find("\"" + name + "\":", from);
  return at == std::string::npos ? ~0ull
                                 : std::strtoull(line.c_str() + at + name.size() + 3, nullptr, 10);
}

inline std::string ground_truth(HardwareModel *m) {
  std::stringstream s;
  m->write_ground_truth(s);
  return s.str();
}

/// One instruction, or several without an access.
struct Step {
  std::uint64_t insns = 1;
  bool accesses = false;
  std::uint64_t address = 0;
  AccessKind use = AccessKind::load;
};

using Program = std::function<Step()>;

/// Instructions that copier() needs per line.
inline constexpr std::uint64_t kCopyInsns = 20;

/// Copies an array in words of 8 bytes: four loads, then four stores, and four loop instructions
/// per line, like compiled code.
inline Program copier(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  return [=, at = std::uint64_t{0}, phase = 0u]() mutable {
    Step s;
    const unsigned n = phase++ % 17;
    if (n == 16) {
      s.insns = 4;
      at = (at + kLineBytes) % bytes;
      return s;
    }
    const bool store = (n / 4) % 2 != 0;
    s.accesses = true;
    s.use = store ? AccessKind::store : AccessKind::load;
    s.address = (store ? to : from) + at + (n / 8 * 4 + n % 4) * 8;
    return s;
  };
}

/// Loads or stores every 16 bytes of an array, repeatedly.
inline Program streamer(std::uint64_t base, std::uint64_t bytes, AccessKind use) {
  return [=, at = std::uint64_t{0}, phase = 0u]() mutable {
    Step s;
    if (phase++ % 5 == 4) {
      s.insns = 2;
      return s;
    }
    s.accesses = true;
    s.use = use;
    s.address = base + at;
    at = (at + 16) % bytes;
    return s;
  };
}

/// Accesses only lines that fit the private cache.
inline Program spinner(std::uint64_t base) {
  return [=, n = 0u]() mutable {
    Step s;
    s.accesses = n++ % 3 == 0;
    s.address = base + n % 64 * 64;
    return s;
  };
}

/// Moves a program to randomly ordered physical pages of 4 KiB, as on a system that has run for a
/// while. Addresses must lie below 1 GiB.
inline Program scattered(Program program) {
  static const std::vector<std::uint32_t> frames = [] {
    std::vector<std::uint32_t> f(1u << 18);
    std::iota(f.begin(), f.end(), 0);
    std::shuffle(f.begin(), f.end(), std::mt19937_64(1));
    return f;
  }();
  return [program = std::move(program)] {
    Step s = program();
    s.address = std::uint64_t{frames[s.address >> 12]} << 12 | (s.address & 0xfff);
    return s;
  };
}

/// Executes this many instructions without access before the program starts.
inline Program delayed(std::uint64_t insns, Program program) {
  return [insns, program = std::move(program)]() mutable {
    if (insns == 0) return program();
    Step s;
    s.insns = std::min<std::uint64_t>(insns, 1000);
    insns -= s.insns;
    return s;
  };
}

class ProgramRunner {
 public:
  explicit ProgramRunner(const MachineDescription &d, std::unique_ptr<InputLog> log = nullptr)
      : hardware(d),
        programs_(d.cores),
        done_(d.cores),
        chunk_(std::max<std::uint64_t>(1, d.quantum * 1000 / d.fs_per_insn())) {
    hardware.record(std::move(log));
    hardware.start(0);
    for (unsigned i = 0; i < d.cores; i++) hardware.sleep(i, {});
  }

  void put(unsigned core, Program p) {
    if (!programs_[core]) hardware.wake(core, hardware.slowest_clock());
    programs_[core] = std::move(p);
  }

  /// Runs until the slowest core has reached this time. Faster cores go beyond it.
  void run_to(Ps to) {
    while (hardware.slowest_clock() < to)
      for (unsigned i = 0; i < programs_.size(); i++)
        if (programs_[i] && hardware.may_run(i)) chunk(i);
  }

  RetiredInsns retired(unsigned core) const { return {done_[core], 0}; }
  std::uint64_t insns(unsigned core) const { return done_[core]; }

  HardwareModel hardware;

 private:
  void chunk(unsigned core) {
    const std::uint64_t end = done_[core] + chunk_;
    for (bool sync_due = false; !sync_due && done_[core] < end;) {
      const Step s = programs_[core]();
      if (s.accesses)
        sync_due = hardware.access(core, done_[core], s.address, 8, s.use, Ring::user) ==
                   AccessResult::sync;
      done_[core] += s.insns;
    }
    hardware.sync(core, retired(core));
  }

  std::vector<Program> programs_;
  std::vector<std::uint64_t> done_;
  std::uint64_t chunk_;
};

}  // namespace drfq::hardware

#endif
