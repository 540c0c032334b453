// SPDX-License-Identifier: GPL-2.0-only
// The controller's register file: Table 3.1 of the thesis and what each access
// means. It has no queue and no clock. The map is interface/registers.toml.
#ifndef DRFQ_REGISTERS_HH
#define DRFQ_REGISTERS_HH

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "generated/registers.hh"
#include "units.hh"

namespace drfq {

class RegisterFile {
 public:
  /// cores: n of Table 3.1, clamped to 1..kCoresMax.
  explicit RegisterFile(std::uint32_t cores)
      : cores_(cores == 0          ? 1
               : cores > kCoresMax ? kCoresMax
                                   : cores),
        traffic_(kPids),
        vtime_pid_(kPids),
        vtime_core_(cores_),
        known_pid_(kPids),
        known_core_(cores_),
        pid_core_(cores_) {}

  std::uint32_t cores() const { return cores_; }

  /// A bus read: traffic registers are cleared by it. *value is 0 on error.
  Access read(std::uint64_t offset, std::uint64_t *value) {
    Access a = peek(offset, value);
    std::size_t i = 0;
    if (a == Access::ok && slot(offset, mmio::kTraffic, kPids, &i)) traffic_[i] = 0;
    return a;
  }

  /// As read, without its side effect.
  Access peek(std::uint64_t offset, std::uint64_t *value) const {
    std::size_t i = 0;
    *value = 0;
    if (offset % 8 != 0) return Access::bad_address;
    if (slot(offset, mmio::kTraffic, kPids, &i) || slot(offset, mmio::kTrafficPeek, kPids, &i))
      *value = traffic_[i];
    else if (slot(offset, mmio::kVtimePid, kPids, &i))
      *value = vtime_pid_[i];
    else if (slot(offset, mmio::kVtimeCore, cores_, &i))
      *value = vtime_core_[i];
    else if (slot(offset, mmio::kPidCore, cores_, &i))
      *value = pid_core_[i];
    else
      return identity(offset, value);
    return Access::ok;
  }

  /// A bus write. An error changes nothing.
  Access write(std::uint64_t offset, std::uint64_t value) {
    std::size_t i = 0;
    std::uint64_t old = 0;
    if (offset % 8 != 0) return Access::bad_address;
    if (slot(offset, mmio::kVtimePid, kPids, &i)) {
      // Unattributed packets always go first (4.4), so pid 0 has no virtual time.
      if (i == 0) return Access::read_only;
      vtime_pid_[i] = value;
      known_pid_[i] = true;
      vtime_writes_++;
    } else if (slot(offset, mmio::kVtimeCore, cores_, &i)) {
      vtime_core_[i] = value;
      known_core_[i] = true;
      vtime_writes_++;
    } else if (slot(offset, mmio::kPidCore, cores_, &i)) {
      if (value >= kPids) return Access::bad_value;
      pid_core_[i] = static_cast<Pid>(value);
      pid_writes_++;
    } else {
      return peek(offset, &old) == Access::ok ? Access::read_only : Access::bad_address;
    }
    return Access::ok;
  }

  /// Counts bytes of an accepted packet; pid is one that attribute() returned.
  void count(Pid pid, std::uint64_t bytes) { traffic_[pid] += bytes; }

  std::uint64_t traffic(Pid pid) const { return traffic_[pid]; }
  VTime vtime_pid(Pid pid) const { return vtime_pid_[pid]; }
  VTime vtime_core(std::uint32_t core) const { return vtime_core_[core]; }
  /// Whether a virtual time was written since the start.
  bool knows_pid(Pid pid) const { return known_pid_[pid] != 0; }
  bool knows_core(std::uint32_t core) const { return known_core_[core] != 0; }
  Pid pid_core(std::uint32_t core) const { return pid_core_[core]; }
  /// How often a virtual time was written.
  std::uint64_t vtime_writes() const { return vtime_writes_; }
  /// How often a core's pid was written.
  std::uint64_t pid_writes() const { return pid_writes_; }

  /// Whether a register holds bytes, so that those of several channels add up.
  static bool counts(std::uint64_t offset) {
    std::size_t i = 0;
    return slot(offset, mmio::kTraffic, kPids, &i) || slot(offset, mmio::kTrafficPeek, kPids, &i);
  }

  /// Takes over what was written to another of as many cores.
  void follow(const RegisterFile &other) {
    vtime_pid_ = other.vtime_pid_;
    vtime_core_ = other.vtime_core_;
    known_pid_ = other.known_pid_;
    known_core_ = other.known_core_;
    pid_core_ = other.pid_core_;
    vtime_writes_ = other.vtime_writes_;
    pid_writes_ = other.pid_writes_;
  }

  /// Takes the bytes that another has counted.
  void take_traffic(RegisterFile *other) {
    for (std::size_t i = 0; i < traffic_.size(); i++) traffic_[i] += other->traffic_[i];
    std::fill(other->traffic_.begin(), other->traffic_.end(), 0);
  }

  /// The state (state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f.same(self.cores_, "cores");
    f(self.traffic_, self.vtime_pid_, self.vtime_core_, self.known_pid_, self.known_core_,
      self.pid_core_, self.vtime_writes_, self.pid_writes_);
  }

 private:
  static bool slot(std::uint64_t offset, std::uint64_t base, std::size_t n, std::size_t *i) {
    if (offset < base || offset - base >= n * 8) return false;
    *i = static_cast<std::size_t>((offset - base) / 8);
    return true;
  }

  Access identity(std::uint64_t offset, std::uint64_t *value) const {
    switch (offset) {
      case mmio::kId:
        *value = mmio::kIdValue;
        return Access::ok;
      case mmio::kVersion:
        *value = mmio::kVersionValue;
        return Access::ok;
      case mmio::kPids:
        *value = kPids;
        return Access::ok;
      case mmio::kCores:
        *value = cores_;
        return Access::ok;
      default:
        return Access::bad_address;
    }
  }

  std::uint32_t cores_;
  std::vector<std::uint64_t> traffic_;
  std::vector<VTime> vtime_pid_;
  std::vector<VTime> vtime_core_;
  // Not vector<bool>: each packet asks.
  std::vector<std::uint8_t> known_pid_;
  std::vector<std::uint8_t> known_core_;
  std::vector<Pid> pid_core_;
  std::uint64_t vtime_writes_ = 0, pid_writes_ = 0;
};

}  // namespace drfq

#endif
