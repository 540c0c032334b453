// SPDX-License-Identifier: GPL-2.0-only
// The memory controller's registers as the guest sees them: a page behind a PCI BAR, and a mailbox
// page in the guest's own memory.
//
// The mailbox page lets software publish the running process and its virtual time with plain
// stores, as BPF can. The guest writes the page's guest-physical address to kMailboxAddress. The
// page holds u64 pid_coreId[256] at offset 0 and u64 virtualTime_coreId[256] at kMailboxVtime.
#ifndef DRFQ_HARDWARE_PCI_REGISTERS_HH
#define DRFQ_HARDWARE_PCI_REGISTERS_HH

#include <cstdint>
#include <optional>
#include <vector>

#include "core/registers.hh"

namespace drfq::hardware {

/// A write of one of the controller's registers.
struct RegisterWrite {
  std::uint64_t offset = 0, value = 0;
};

class PciRegisters {
 public:
  /// Offset in the BAR, read-write: guest-physical address of the mailbox page, a multiple of
  /// kMailboxBytes. 0: there is none.
  static constexpr std::uint64_t kMailboxAddress = virtual_machine::kMailboxRegister;
  static constexpr std::uint64_t kBytes = virtual_machine::kPciBytes;  ///< of the BAR
  static constexpr std::uint64_t kMailboxBytes = virtual_machine::kMailboxBytes;
  /// Offset of virtualTime_coreId in the mailbox page.
  static constexpr std::uint64_t kMailboxVtime = 8 * virtual_machine::kMailboxCores;

  /// page: host address of the BAR's memory, which this call fills; may be null.
  void attach(std::uint64_t *page, const RegisterFile &);

  /// The guest stored value at an offset of the BAR. Restores what is not writable. Returns the
  /// write that the controller must perform, if any.
  std::optional<RegisterWrite> bar_stored(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                                          const RegisterFile &);
  /// The guest stored value at an offset of the mailbox page.
  static std::optional<RegisterWrite> mailbox_stored(std::uint64_t offset, unsigned bytes,
                                                     std::uint64_t value, std::uint32_t cores);
  /// The guest loaded value from an offset of the BAR. A traffic register decreases by the value
  /// that the guest read.
  void bar_loaded(std::uint64_t offset, unsigned bytes, std::uint64_t value, RegisterFile *);
  /// Publishes the traffic of these pids.
  void publish_traffic(const std::vector<Pid> &, const RegisterFile &);

  /// Guest-physical address of the mailbox page; 0: none.
  std::uint64_t mailbox_address() const { return mailbox_address_; }

 private:
  void publish(std::uint64_t offset, std::uint64_t value);
  /// Publishes the register's present value again.
  void restore(std::uint64_t offset, const RegisterFile &);

  std::uint64_t *page_ = nullptr;
  std::uint64_t mailbox_address_ = 0;
};

}  // namespace drfq::hardware

#endif
