// SPDX-License-Identifier: GPL-2.0-only
// The memory controller's registers as the guest sees them: a page behind a PCI BAR, and the
// mailbox, a page of the guest's own memory that holds a label for each core. Cores publish what
// they run with plain stores there, as BPF can. docs/reference/registers.md describes both.
//
// Hardware would read a core's label when a packet arrives. This model follows the stores to the
// page instead, which comes to the same: a core's packets and its stores stay in program order. A
// page must therefore be announced before its labels are stored.
#ifndef DRFQ_HARDWARE_PCI_REGISTERS_HH
#define DRFQ_HARDWARE_PCI_REGISTERS_HH

#include <cstdint>
#include <vector>

#include "core/registers.hh"
#include "machine_description.hh"

namespace drfq::hardware {

/// A write of one of the controller's registers.
struct RegisterWrite {
  std::uint64_t offset = 0, value = 0;
};

class PciRegisters {
 public:
  static constexpr std::uint64_t kBytes = virtual_machine::kPciBytes;  ///< of the BAR
  static constexpr std::uint64_t kMailboxPageBytes = mailbox::kPageBytes;
  static_assert(kMachineCoresMax <= mailbox::kPageBytes / mailbox::kLabelBytes,
                "one page holds the labels of every core");

  /// has_mailbox: false makes a device that does not know the mailbox.
  PciRegisters(unsigned cores, bool has_mailbox) : has_mailbox_(has_mailbox), labels_(cores) {}

  /// page: host address of the BAR's memory, which this call fills; may be null.
  void attach(std::uint64_t *page, const RegisterFile &);

  /// The guest stored value at an offset of the BAR. Restores what is not writable. Returns the
  /// writes that the controller must perform.
  std::vector<RegisterWrite> bar_stored(std::uint64_t offset, unsigned bytes, std::uint64_t value,
                                        const RegisterFile &);
  /// The same for an offset of the mailbox's page.
  std::vector<RegisterWrite> mailbox_stored(std::uint64_t offset, unsigned bytes,
                                            std::uint64_t value);
  /// The guest loaded value from an offset of the BAR. A traffic register decreases by the value
  /// that the guest read.
  void bar_loaded(std::uint64_t offset, unsigned bytes, std::uint64_t value, RegisterFile *);
  /// Publishes the traffic of these pids.
  void publish_traffic(const std::vector<Pid> &, const RegisterFile &);

  /// Guest-physical address of the mailbox's page; 0: there is none.
  std::uint64_t mailbox_page() const { return mailbox_page_; }

 private:
  /// What a core stored in its label.
  struct CoreLabel {
    std::uint64_t valid = 0, pid = 0, vtime = 0;
    /// Without a pid the virtual time is a former task's.
    bool counts() const { return valid == mmio::kIdValue && pid != 0 && pid < kPids; }
  };

  void publish(std::uint64_t offset, std::uint64_t value);
  /// Publishes what a core's label says. Returns the writes that the controller must perform.
  std::vector<RegisterWrite> publish_label(std::uint64_t core);
  /// Forgets all labels, because the page moves. Returns the same.
  std::vector<RegisterWrite> forget_labels();
  /// Publishes the register's present value again.
  void restore(std::uint64_t offset, const RegisterFile &);

  bool has_mailbox_;
  std::uint64_t *page_ = nullptr;
  std::uint64_t mailbox_page_ = 0;
  std::vector<CoreLabel> labels_;
};

}  // namespace drfq::hardware

#endif
