// SPDX-License-Identifier: GPL-2.0-only
// The controller's register file as the guest sees it: a shared page behind a
// PCI BAR, and a shadow page in the guest's own memory (machine.hh).
#ifndef DRFQ_MACHINE_REGISTERS_HH
#define DRFQ_MACHINE_REGISTERS_HH

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/registers.hh"

namespace drfq::machine
{

/// A write of a register of interface/registers.toml.
struct RegisterWrite {
	bool is = false; ///< false: the store means nothing to the controller
	std::uint64_t offset = 0, value = 0;
};

class Registers
{
      public:
	static constexpr std::uint64_t kShadow =
		virtual_machine::kMailboxRegister; ///< RW: where the shadow page is; 0: nowhere
	static constexpr std::uint64_t kBytes = virtual_machine::kPciBytes;
	static constexpr std::uint64_t kShadowBytes = virtual_machine::kMailboxBytes;
	static constexpr std::uint64_t kShadowVtime =
		8 * virtual_machine::kMailboxCores; ///< offset of its second half

	/// page may be null. Fills it.
	void attach(std::uint64_t *page, const RegisterFile &);

	/// The guest stored value at an offset of the page. What is not writable is
	/// put back.
	RegisterWrite stored(std::uint64_t offset, unsigned bytes, std::uint64_t value,
			     const RegisterFile &);
	/// The guest stored value at an offset of the shadow page.
	static RegisterWrite shadowed(std::uint64_t offset, unsigned bytes, std::uint64_t value,
				      std::uint32_t cores);
	/// The guest read value at an offset of the page: traffic is cleared by what was read.
	void loaded(std::uint64_t offset, unsigned bytes, std::uint64_t value, RegisterFile *);
	/// Traffic of these pids changed.
	void charged(const std::vector<Pid> &, const RegisterFile &);

	std::uint64_t shadow() const
	{
		return shadow_;
	}

      private:
	void show(std::uint64_t offset, std::uint64_t value);
	void restore(std::uint64_t offset, const RegisterFile &);

	std::uint64_t *page_ = nullptr;
	std::uint64_t shadow_ = 0;
};

} // namespace drfq::machine

#endif
