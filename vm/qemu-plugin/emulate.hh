// SPDX-License-Identifier: GPL-2.0-only
// Instructions that the plugin does in QEMU's place. Each function is called
// before its instruction, on the vCPU's thread; those that do it leave by
// qemu_plugin_set_pc() and never return.
#ifndef DRFQ_PLUGIN_EMULATE_HH
#define DRFQ_PLUGIN_EMULATE_HH

#include "core.hh"
#include "decode.hh"
#include "gate.hh"

namespace drfq::plugin {

/// CPUID leaves by which the guest's helper talks to the plugin. All answer
/// kMagicAnswer in EBX, and in EAX whether the machine is live.
inline constexpr std::uint32_t kMagicLive =
    0x40d0d0d0;  ///< go live; RCX: where the controller's BAR is, 0: nowhere
inline constexpr std::uint32_t kMagicReport = 0x40d0d0d1;  ///< write a line of truth now
inline constexpr std::uint32_t kMagicAnswer = 0x71667264;  // "drfq"

/// What the instructions act on, beside their core.
class Emulator {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    virtual void go_live(std::uint64_t bar) = 0;
    virtual bool live() const = 0;
    virtual void report() = 0;
    /// Time-stamp counter while the machine is not live.
    virtual std::uint64_t boot_tsc() const = 0;
  };

  Emulator(machine::Machine &m, Gate &g, Host &h) : machine_(m), gate_(g), host_(h) {}

  void run(Special, Core &, const Site &);
  /// Amends what QEMU's CPUID has just answered, if one is pending.
  void amend_cpuid(Core &);

 private:
  void cpuid(Core &, const Site &);
  void rdmsr(Core &, const Site &);
  void wrmsr(Core &, const Site &);
  void rdpmc(Core &, const Site &);
  void rdtsc(Core &, const Site &, bool with_aux);
  void hlt(Core &, const Site &);
  void clflush(Core &, const Site &);
  void settle(Core &, const Site &);
  std::uint64_t tsc(Core &, const Site &);
  [[noreturn]] void skip(Core &, const Site &);
  [[noreturn]] void again(Core &, const Site &);

  machine::Machine &machine_;
  Gate &gate_;
  Host &host_;
};

}  // namespace drfq::plugin

#endif
