// SPDX-License-Identifier: GPL-2.0-only
// Numbers of the model-specific registers that the modelled hardware implements. Names and numbers
// are those of the Intel SDM, volume 4.
#ifndef DRFQ_HARDWARE_MSR_HH
#define DRFQ_HARDWARE_MSR_HH

#include <cstdint>

namespace drfq::hardware {

/// The outcome of an RDMSR or WRMSR.
enum class MsrResult : std::uint8_t {
  handled,
  not_ours,  ///< the emulator keeps its own behaviour
  fault,     ///< hardware raises #GP
};

namespace msr {
inline constexpr std::uint32_t kPmc = 0xC1;           ///< IA32_PMC0
inline constexpr std::uint32_t kPerfevtsel = 0x186;   ///< IA32_PERFEVTSEL0
inline constexpr std::uint32_t kOffcoreRsp0 = 0x1A6;  ///< MSR_OFFCORE_RSP_0; _1 follows
inline constexpr std::uint32_t kFixedCtr = 0x309;     ///< IA32_FIXED_CTR0
inline constexpr std::uint32_t kPerfCapabilities = 0x345;
inline constexpr std::uint32_t kFixedCtrCtrl = 0x38D;
inline constexpr std::uint32_t kGlobalStatus = 0x38E;
inline constexpr std::uint32_t kGlobalCtrl = 0x38F;
inline constexpr std::uint32_t kGlobalOvfCtrl = 0x390;
inline constexpr std::uint32_t kFullPmc = 0x4C1;   ///< IA32_A_PMC0
inline constexpr std::uint32_t kQmEvtsel = 0xC8D;  ///< IA32_QM_EVTSEL
inline constexpr std::uint32_t kQmCtr = 0xC8E;     ///< IA32_QM_CTR
inline constexpr std::uint32_t kPqrAssoc = 0xC8F;  ///< IA32_PQR_ASSOC
inline constexpr std::uint32_t kL3Mask = 0xC90;    ///< IA32_L3_QOS_MASK_0
inline constexpr std::uint32_t kMbaDelay = 0xD50;  ///< IA32_L2_QOS_EXT_BW_THRTL_0

/// Whether an MSR may be a performance-monitoring one, for any number of counters.
constexpr bool is_pmu(std::uint32_t m) {
  const auto in = [m](std::uint32_t first, std::uint32_t count) { return m - first < count; };
  return in(kPmc, 8) || in(kPerfevtsel, 8) || in(kOffcoreRsp0, 2) || in(kFixedCtr, 3) ||
         m == kPerfCapabilities || in(kFixedCtrCtrl, 4) || in(kFullPmc, 8);
}
/// Whether an MSR is a counter or controls one.
constexpr bool counts(std::uint32_t m) { return is_pmu(m) || m == kQmCtr; }
}  // namespace msr

}  // namespace drfq::hardware

#endif
