// SPDX-License-Identifier: GPL-2.0-only
// A machine with the parts that an emulator lacks: caches, prefetchers, memory
// contention, RDT, performance counters, and the clocks that all this drives.
// The host runs the instructions; this says what they cost and what is seen of it.
//
// How time works. A core's clock is its instructions times the instruction time,
// plus the stalls of its misses, plus the time it slept. The private cache acts
// at once, on the core's own thread. What misses there is only logged; sync()
// hands the log over, and everything beyond the private cache (shared cache,
// prefetchers, throttling, memory) is then played back in the order of simulated
// time, for all cores together, as far as the slowest core has come. The timing
// is thus a function of the logs alone: neither the host's load nor the order in
// which its threads call makes a difference.
//
// The host's loop for a core:
//
//   on each data access:   if (machine.access(...)) ask for a sync soon
//   at least each quantum: if (machine.sync(core, progress) == Turn::wait)
//                            wait (bounded) until may_run(core)
//
// Threads: access(), watches(), now() and tsc() belong to the thread of their
// core and take no lock; all else takes the one mutex inside, for microseconds.
#ifndef DRFQ_MACHINE_MACHINE_HH
#define DRFQ_MACHINE_MACHINE_HH

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "cache.hh"
#include "description.hh"
#include "registers.hh"

namespace drfq::machine
{

struct Cpuid {
	std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// What became of an MSR access. fault: hardware would raise #GP.
enum class Msr : std::uint8_t { handled, not_ours, fault };

/// How far a core has come: instructions retired since the start, by ring.
struct Progress {
	std::uint64_t user = 0, kernel = 0;
	std::uint64_t all() const
	{
		return user + kernel;
	}
};

/// What an access does.
enum class Use : std::uint8_t { load, store };
enum class Ring : std::uint8_t { kernel, user };

/// wait: the core is a quantum ahead of the slowest one that runs.
enum class Turn : std::uint8_t { run, wait };

class Machine
{
      public:
	explicit Machine(const Description &);
	~Machine();
	Machine(const Machine &) = delete;
	Machine &operator=(const Machine &) = delete;

	const Description &description() const;

	// ---- Execution. core < description().cores everywhere.

	/// All cores start at simulated time at, having retired nothing. Call once,
	/// when the machine goes live; until then time stands still at 0.
	void start(Ps at);

	/// One data access at guest-physical address; insns: retired so far by this core
	/// (both rings). Accesses that cross a line count for both. True: call sync() soon.
	bool access(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
		    Use use, Ring ring)
	{
		const Line first = physical / kLineBytes,
			   last = (physical + bytes - 1) / kLineBytes;
		if (l1_[core].hit(first, use == Use::store) && first == last)
			return false;
		return miss(core, insns, first, last, use, ring);
	}

	/// CLFLUSH and its like: the line leaves this core's private cache and the shared one.
	void flush(unsigned core, std::uint64_t insns, std::uint64_t physical);

	/// Hands over what the core did until now and plays back what can be.
	Turn sync(unsigned core, const Progress &);
	/// Whether sync() would say run, now that others have come further.
	bool may_run(unsigned core);

	/// Plays back all that the core handed over, even if others lag behind, and waits for
	/// its misses as CPUID does: for exact counters. Calls that read counters play back
	/// themselves, those that write them wait, too.
	void settle(unsigned core, const Progress &);

	/// The core spends time at work without retiring (PAUSE, a device access).
	void spend(unsigned core, const Progress &, Ps, Ring = Ring::kernel);
	/// The core halts: it holds nobody up until wake(), which moves its clock on to at,
	/// if that is later. Halted time is not counted as cycles.
	void sleep(unsigned core, const Progress &);
	void wake(unsigned core, Ps at);

	/// The core's clock, without the stalls of what is not played back yet (at most
	/// about a quantum). Never goes back.
	Ps now(unsigned core, std::uint64_t insns) const;
	/// The same as its time-stamp counter, at tsc_hz.
	std::uint64_t tsc(unsigned core, std::uint64_t insns) const;
	/// The clock of the slowest core that runs; when all sleep, of the furthest.
	Ps horizon() const;

	// ---- What software sees.

	/// of_qemu: what the emulated CPU answers; leaves that are not ours pass through.
	Cpuid cpuid(unsigned core, std::uint32_t leaf, std::uint32_t subleaf,
		    const Cpuid &of_qemu) const;
	Msr rdmsr(unsigned core, const Progress &, std::uint32_t msr, std::uint64_t *value);
	Msr wrmsr(unsigned core, const Progress &, std::uint32_t msr, std::uint64_t value);
	/// False: no such counter (#GP).
	bool rdpmc(unsigned core, const Progress &, std::uint32_t selector, std::uint64_t *value);

	// ---- The controller's registers: a shared page that the guest maps as a PCI BAR.
	// The guest's loads read the page itself, so it always shows the registers; the
	// host reports the loads and stores that it saw, after they happened.

	/// Offset in the BAR of one more register than interface/registers.toml lists for the core: RW,
	/// guest-physical address of the shadow page (4096-aligned; 0: none). Shadow page:
	/// u64 pid_coreId[256] at 0, u64 virtualTime_coreId[256] at 2048. Plain aligned
	/// 8-byte stores there act as writes of these registers, in the program order of the
	/// core that stores.
	static constexpr std::uint64_t kShadowRegister = Registers::kShadow;
	static constexpr std::uint64_t kBarBytes = Registers::kBytes;

	/// page: host address of the BAR's memory (kBarBytes, 8-byte aligned), where it is in
	/// guest-physical memory. Fills it. Null detaches.
	void attach_bar(void *page, std::uint64_t guest_physical);
	/// The guest moved the BAR.
	void move_bar(std::uint64_t guest_physical);
	/// Whether accesses to this address must be reported to loaded() or stored()
	/// instead of access().
	bool watches(std::uint64_t physical) const
	{
		return physical - bar_.load(std::memory_order_relaxed) < kBarBytes ||
		       physical - shadow_.load(std::memory_order_relaxed) < Registers::kShadowBytes;
	}
	/// value: what was loaded or is stored there; bytes other than 8 do not reach registers.
	void loaded(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
		    std::uint64_t value);
	void stored(unsigned core, std::uint64_t insns, std::uint64_t physical, unsigned bytes,
		    std::uint64_t value);

	// ---- Truth.

	/// One line of JSON: everything since the last report (docs/virtual-machine.md).
	void report(std::ostream &);

      private:
	struct State;

	bool miss(unsigned core, std::uint64_t insns, Line first, Line last, Use, Ring);

	std::vector<PrivateCache> l1_;
	// Where nothing is, in guest-physical memory.
	static constexpr std::uint64_t kNowhere = std::uint64_t{1} << 63;
	std::atomic<std::uint64_t> bar_{kNowhere}, shadow_{kNowhere};
	std::unique_ptr<State> state_;
};

} // namespace drfq::machine

#endif
