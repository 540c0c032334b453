/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs' slots and the system virtual time V.
 *
 * ── V ───────────────────────────────────────────────────────────────────────
 * V is the smallest start time of all running packets, and never goes back
 * (4.6). The thesis scans all CPUs at every switch. Here a CPU scans only when
 * its own former packet may have been the smallest, that is, not after V: with
 * c CPUs one switch in c. Wake-ups start behind V and would scan each time, so
 * scans are also V_LAG_MIN_NS apart, or V_LAG_PER_CPU_NS times c if that is more,
 * which bounds their cost to a few percent of one CPU. A scan that is left out
 * for that is made up for at the next change of any slot: V lags by two packets
 * at most.
 */
#ifndef DRFQ_CPU_BPF_H
#define DRFQ_CPU_BPF_H

#define V_LAG_MIN_NS 20000
#define V_LAG_PER_CPU_NS 500

/* In a map of its own, which the agent maps to forward registers. */
struct drfq_cpu cpus[DRFQ_MAX_CPUS] SEC(".data.cpus");

u64 system_vtime_ns = DRFQ_V_ORIGIN_NS;

/* Slots whose pid is not 0, CPUs that run a packet; 4.5.2 divides by it. */
u32 busy_cpus;

static u64 v_scanned_at_ns;

/* A scan was left out: V may be behind. */
static u32 v_stale;

/* An index into a table of all CPUs. The loader refuses machines with more CPUs
 * than the tables have; the mask tells the verifier. */
static __always_inline u64 cpu_index(s32 cpu)
{
	return (u32)cpu & (DRFQ_MAX_CPUS - 1);
}

static __always_inline struct drfq_cpu *cpu_slot(s32 cpu)
{
	return &cpus[cpu_index(cpu)];
}

/* The packet of @pid runs on the CPU of @slot, or none if 0. Under the lock of
 * the CPU's run queue, as are all callbacks that change a slot. */
static __always_inline void slot_set_pid(struct drfq_cpu *slot, u32 pid)
{
	if (!pid != !slot->pid)
		__sync_fetch_and_add(&busy_cpus, pid ? 1 : -1);
	WRITE_ONCE(slot->pid, pid);
}

/* Counters belong to the CPU that executes; a plain increment is enough. */
static __always_inline void count(enum drfq_event event)
{
	cpu_slot(bpf_get_smp_processor_id())->events[event]++;
}

static __always_inline u64 vtime_now(void)
{
	return READ_ONCE(system_vtime_ns);
}

/* How far the tasks of @cpu have got: S of its packet. */
static __always_inline u64 vtime_of_cpu(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	return READ_ONCE(slot->pid) ? READ_ONCE(slot->vtime_ns) : vtime_now();
}

/*
 * V as it is for the tasks of @cpu. Where tasks that share no CPU with the others
 * have more weight per CPU, V is pulled past them by the others; who wakes among
 * them starts by where they are.
 */
static __always_inline u64 vtime_local(s32 cpu)
{
	return drfq_earlier(vtime_now(), vtime_of_cpu(cpu));
}

/*
 * A global function, as are the ones in flow.bpf.h: the verifier checks it once
 * by itself and not again on every path of every caller.
 */
__noinline int vtime_advance(u64 min_start)
{
	u64 v = vtime_now(), next;
	int tries;

	bpf_for(tries, 0, 8) {
		next = drfq_advance(v, min_start);
		if (next == v)
			break;
		next = __sync_val_compare_and_swap(&system_vtime_ns, v, next);
		if (next == v)
			break;
		v = next;
	}
	return 0;
}

/* Always 0. The verifier does not know, and so does not follow a loop that
 * counts up from it once for every count. */
u32 verifier_zero;

/* Scans the slots. Returns the number of busy CPUs, @except not counted. */
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

/* A slot left virtual time @old: brings V up to date if it may have moved. */
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
