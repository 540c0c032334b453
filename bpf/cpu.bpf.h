/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs' slots, and the system virtual time V.
 *
 * ── V ───────────────────────────────────────────────────────────────────────
 * V is the smallest S of all running packets, and never goes back (4.6). The
 * thesis scans all CPUs at every switch. Two rules make scans rarer here:
 *
 * - A CPU scans only if its former packet may have had the smallest S, that is, if
 *   that S was not after V. With c CPUs this is about one switch in c.
 * - Scans are at least max(V_LAG_MIN_NS, c x V_LAG_PER_CPU_NS) apart, which bounds
 *   their cost to a few percent of one CPU. Woken tasks start before V and would
 *   otherwise scan each time. The next change of any slot makes up for a scan that
 *   was left out.
 *
 * V is therefore at most two packets late.
 */
#ifndef DRFQ_CPU_BPF_H
#define DRFQ_CPU_BPF_H

/* Least time between two scans (wall clock, ns). */
#define V_LAG_MIN_NS 20000
#define V_LAG_PER_CPU_NS 500

/* A separate map, so that the agent can mmap it and forward it to registers. */
struct drfq_cpu cpus[DRFQ_MAX_CPUS] SEC(".data.cpus");

/* V (ns). */
u64 system_vtime_ns = DRFQ_V_ORIGIN_NS;

/* Number of slots whose pid is not 0: the divisor of 4.5.2. */
u32 busy_cpus;

/* Time of the last scan (scx_bpf_now(), ns). */
static u64 v_scanned_at_ns;

/* Not 0: a scan was left out, so V may be late. */
static u32 v_stale;

/*
 * The index of @cpu in tables of DRFQ_MAX_CPUS. The loader refuses larger machines;
 * the mask proves the bound to the verifier.
 */
static __always_inline u64 cpu_index(s32 cpu)
{
	return (u32)cpu & (DRFQ_MAX_CPUS - 1);
}

static __always_inline struct drfq_cpu *cpu_slot(s32 cpu)
{
	return &cpus[cpu_index(cpu)];
}

/* Returns the LLC of @cpu, from 0 to nr_llcs - 1. */
static __always_inline u32 llc_of_cpu(s32 cpu)
{
	return cpu_llc[cpu_index(cpu)];
}

/*
 * Records that task @pid runs on the CPU of @slot; 0: none does. The caller holds
 * the CPU's run-queue lock, as every callback does that changes a slot.
 */
static __always_inline void slot_set_pid(struct drfq_cpu *slot, u32 pid)
{
	if (!pid != !slot->pid)
		__sync_fetch_and_add(&busy_cpus, pid ? 1 : -1);
	WRITE_ONCE(slot->pid, pid);
}

/* Each CPU counts in its own slot, so a plain increment is enough. */
static __always_inline void count(enum drfq_event event)
{
	cpu_slot(bpf_get_smp_processor_id())->events[event]++;
}

/* Returns V (ns). */
static __always_inline u64 vtime_now(void)
{
	return READ_ONCE(system_vtime_ns);
}

/* Returns S of the packet that runs on @cpu (ns); V if the CPU is idle. */
static __always_inline u64 vtime_of_cpu(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	return READ_ONCE(slot->pid) ? READ_ONCE(slot->vtime_ns) : vtime_now();
}

/*
 * Returns the V by which tasks wake on @cpu (ns): V, or S of the CPU's packet if that
 * is earlier. Tasks that are pinned to a CPU with much weight fall behind a V that
 * the other CPUs advance. A task that wakes among them starts from their S.
 */
static __always_inline u64 vtime_local(s32 cpu)
{
	return drfq_earlier(vtime_now(), vtime_of_cpu(cpu));
}

/* Advances *@vtime (ns) to at least @least, against concurrent advances. */
static __always_inline void advance_to(u64 *vtime, u64 least)
{
	u64 now = READ_ONCE(*vtime), next;
	int tries;

	bpf_for(tries, 0, 8) {
		next = drfq_advance(now, least);
		if (next == now)
			break;
		next = __sync_val_compare_and_swap(vtime, now, next);
		if (next == now)
			break;
		now = next;
	}
}

/*
 * Advances V to at least @min_start (ns). A global function, like those of
 * flow.bpf.h: the verifier checks it once by itself, not on every path of every
 * caller.
 */
__noinline int vtime_advance(u64 min_start)
{
	advance_to(&system_vtime_ns, min_start);
	return 0;
}

/*
 * Always 0, but unknown to the verifier. It explores a loop that counts up from a
 * known number once per count.
 */
u32 verifier_zero;

/*
 * Advances V to the smallest S of all slots but @except (-1: all slots). Returns how
 * many of these CPUs are busy.
 */
__noinline u32 vtime_scan(s32 except)
{
	u64 min_start = verifier_zero;
	u32 busy = verifier_zero;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct drfq_cpu *slot = cpu_slot(cpu);
		u64 start;

		if (cpu == except || !READ_ONCE(slot->pid))
			continue;
		start = READ_ONCE(slot->vtime_ns);
		if (!busy || drfq_before(start, min_start))
			min_start = start;
		busy++;
	}
	if (busy)
		vtime_advance(min_start);
	return busy;
}

/* A slot no longer has S = @old (ns): scans if V may have to move and a scan is due. */
static __always_inline void vtime_refresh(u64 old)
{
	u64 now, lag = (u64)nr_cpu_ids * V_LAG_PER_CPU_NS;

	if (drfq_before(vtime_now(), old) && !READ_ONCE(v_stale))
		return;
	now = scx_bpf_now();
	if (now - READ_ONCE(v_scanned_at_ns) < (lag > V_LAG_MIN_NS ? lag : V_LAG_MIN_NS)) {
		WRITE_ONCE(v_stale, 1);
		return;
	}
	WRITE_ONCE(v_stale, 0);
	WRITE_ONCE(v_scanned_at_ns, now);
	vtime_scan(-1);
}

#endif /* DRFQ_CPU_BPF_H */
