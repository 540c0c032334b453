// SPDX-License-Identifier: GPL-2.0-only
#include "machine.hh"

#include <ostream>

namespace drfq::machine {

struct Machine::State {
  Description description;
};

Machine::Machine(const Description &d) : state_(new State{d}) {}
Machine::~Machine() = default;

const Description &Machine::description() const { return state_->description; }

void Machine::start(Ps) {}
bool Machine::access(unsigned, std::uint64_t, std::uint64_t, unsigned, Use, Ring) { return false; }
void Machine::flush(unsigned, std::uint64_t, std::uint64_t) {}
Turn Machine::sync(unsigned, const Progress &) { return Turn::run; }
bool Machine::may_run(unsigned) { return true; }
void Machine::settle(unsigned, const Progress &) {}
void Machine::spend(unsigned, const Progress &, Ps) {}
void Machine::sleep(unsigned, const Progress &) {}
void Machine::wake(unsigned, Ps) {}
Ps Machine::now(unsigned, std::uint64_t insns) const {
  return insns * (state_->description.fs_per_insn() / 1000);
}
std::uint64_t Machine::tsc(unsigned core, std::uint64_t insns) const { return now(core, insns) / 1000; }
Ps Machine::horizon() const { return 0; }

Cpuid Machine::cpuid(unsigned, std::uint32_t, std::uint32_t, const Cpuid &of_qemu) const {
  return of_qemu;
}
Msr Machine::rdmsr(unsigned, const Progress &, std::uint32_t, std::uint64_t *) {
  return Msr::not_ours;
}
Msr Machine::wrmsr(unsigned, const Progress &, std::uint32_t, std::uint64_t) {
  return Msr::not_ours;
}
bool Machine::rdpmc(unsigned, const Progress &, std::uint32_t, std::uint64_t *) { return false; }

void Machine::attach_bar(void *, std::uint64_t) {}
void Machine::move_bar(std::uint64_t) {}
bool Machine::watches(std::uint64_t) const { return false; }
void Machine::loaded(unsigned, std::uint64_t, std::uint64_t, unsigned, std::uint64_t) {}
void Machine::stored(unsigned, std::uint64_t, std::uint64_t, unsigned, std::uint64_t) {}

void Machine::report(std::ostream &out) { out << "{}\n"; }

}  // namespace drfq::machine
