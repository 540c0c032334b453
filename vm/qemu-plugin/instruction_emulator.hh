// SPDX-License-Identifier: GPL-2.0-only
// Instructions that the plugin executes instead of QEMU. QEMU calls run() before the instruction,
// on the vCPU's thread. If the plugin executes the instruction, run() leaves the translated code by
// qemu_plugin_set_pc() and does not return. If run() returns, QEMU executes the instruction.
#ifndef DRFQ_PLUGIN_INSTRUCTION_EMULATOR_HH
#define DRFQ_PLUGIN_INSTRUCTION_EMULATOR_HH

#include "vcpu.hh"
#include "vcpu_scheduler.hh"

namespace drfq::plugin {

class InstructionEmulator {
 public:
  /// What the plugin as a whole provides.
  class Host {
   public:
    virtual ~Host() = default;
    /// bar: guest-physical address of the controller's BAR; 0: there is none.
    virtual void go_live(std::uint64_t bar) = 0;
    virtual bool live() const = 0;
    virtual void write_ground_truth() = 0;
    /// Time-stamp counter until the machine goes live.
    virtual std::uint64_t boot_tsc() const = 0;
  };

  InstructionEmulator(hardware::HardwareModel &m, VcpuScheduler &s, Host &h)
      : hardware_(m), scheduler_(s), host_(h) {}

  void run(Vcpu &, const InsnSite &);
  /// Amends the answer of QEMU's CPUID if one is pending.
  void amend_cpuid(Vcpu &);

 private:
  void cpuid(Vcpu &, const InsnSite &);
  void rdmsr(Vcpu &, const InsnSite &);
  void wrmsr(Vcpu &, const InsnSite &);
  void rdpmc(Vcpu &, const InsnSite &);
  void rdtsc(Vcpu &, const InsnSite &, bool with_aux);
  void hlt(Vcpu &, const InsnSite &);
  void set_space(Vcpu &, const InsnSite &);
  void clflush(Vcpu &, const InsnSite &);
  /// Waits until no vCPU lags behind this one. Counters are exact only then.
  void catch_up(Vcpu &, const InsnSite &);
  std::uint64_t tsc(Vcpu &, const InsnSite &);
  /// Continues after the instruction.
  [[noreturn]] void skip(Vcpu &, const InsnSite &);
  /// Executes the instruction again later.
  [[noreturn]] void retry(Vcpu &, const InsnSite &);

  hardware::HardwareModel &hardware_;
  VcpuScheduler &scheduler_;
  Host &host_;
};

}  // namespace drfq::plugin

#endif
