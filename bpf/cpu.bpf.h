/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs' slots, and the system virtual time V.
 *
 * ── V ───────────────────────────────────────────────────────────────────────
 * V is the smallest S of all running packets, and never goes back (4.6). The
 * thesis scans all CPUs at every switch. Here a round through all CPUs starts at a
 * switch. This switch and the next ones scan V_SCAN_SLOTS slots each, one CPU at a time.
 * So a switch has a bounded number of loads.
 *
 * With b busy CPUs a slice has at most V_SCAN_PARTS / b rounds, within limits. b CPUs make
 * some b switches in a slice, so the mean of a switch's loads does not grow with the CPUs.
 *
 * V is late by the time between two rounds, the c / V_SCAN_SLOTS switches that a round
 * takes, and the packet that it waits for. With n tasks of weight 1, V advances by 1/n of
 * the time, and n is at least b. So rounds that are farther apart leave V as exact.
 *
 * ── Cache lines ─────────────────────────────────────────────────────────────
 * Values that one CPU writes while others read them often have a line each. The
 * others would otherwise lose the line for the sake of a neighbouring value.
 */
#ifndef DRFQ_CPU_BPF_H
#define DRFQ_CPU_BPF_H

/* How many slots a switch scans at most. */
#define V_SCAN_SLOTS 16

/* A slice has so many parts. Rounds are at least as many parts apart as CPUs are busy, at
 * least V_SCAN_PARTS_MIN and at most all. */
#define V_SCAN_PARTS 8
#define V_SCAN_PARTS_MIN 2

#define OWN_LINE __attribute__((aligned(64)))

/* A virtual time, or a count, that has a cache line of its own. */
struct shared_u64 {
	u64 value;
} OWN_LINE;

struct shared_u32 {
	u32 value;
} OWN_LINE;

/* Always 0, but unknown to the verifier, which explores fewer paths then. */
u32 verifier_zero;

/* A separate map, which the agent maps to read it. */
struct drfq_cpu cpus[DRFQ_MAX_CPUS] SEC(".data.cpus");

/* V (ns). */
struct shared_u64 system_vtime_ns = {DRFQ_V_ORIGIN_NS};

/* Number of slots whose pid is not 0: the divisor of 4.5.2. */
struct shared_u32 busy_cpus;

/*
 * The scan for V. While the kernel loads or ends the scheduler, tasks run in the order of their
 * waking, and those with the smallest S wait elsewhere. V would pass them, and their debts would
 * be forgiven. So V stands still then.
 */
struct v_scan {
	u64 round_at_ns; /* start of this round, or the last one (scx_bpf_now()) */
	u64 min_start_ns; /* smallest S that this round has met, if any */
	u32 met; /* busy CPUs that this round has met */
	u32 next; /* the next CPU */
	u32 taken; /* enum drfq_v_scan */
} OWN_LINE;

/* The agent closes it before it ends the scheduler. */
struct v_scan v_scan = {.taken = DRFQ_V_SCAN_AWAITS};

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
		__sync_fetch_and_add(&busy_cpus.value, pid ? 1 : -1);
	WRITE_ONCE(slot->pid, pid);
}

/* Returns whether this scheduler runs @p on the CPU of @slot. */
static __always_inline bool slot_runs(const struct drfq_cpu *slot, const struct task_struct *p)
{
	return p->pid && READ_ONCE(slot->pid) == (u32)p->pid;
}

/* No task of ours runs on the CPU of @slot any more. */
static __always_inline void slot_clear(struct drfq_cpu *slot)
{
	slot_set_pid(slot, 0);
	slot->base_valid = false;
}

/* A higher class has taken the CPU of @slot. In this order: to others, a CPU without a packet that
 * is not taken is idle. */
static __always_inline void slot_lost(struct drfq_cpu *slot)
{
	WRITE_ONCE(slot->taken, 1);
	slot_clear(slot);
}

/* No higher class has the CPU of @slot any more. */
static __always_inline void slot_given_back(struct drfq_cpu *slot)
{
	if (slot->taken)
		WRITE_ONCE(slot->taken, 0);
}

/* Returns the slot of the CPU that executes this. */
static __always_inline struct drfq_cpu *own_slot(void)
{
	return cpu_slot(bpf_get_smp_processor_id());
}

/* Each CPU counts in its own slot, and in a callback nothing else counts there. So a plain addition
 * is enough. */
static __always_inline void count_many(enum drfq_event event, u64 many)
{
	own_slot()->events[event] += many;
}

static __always_inline void count(enum drfq_event event)
{
	count_many(event, 1);
}

/* The same for programs of the kernel's tracepoints and functions. A softirq interrupts them, and
 * Linux 7.3 may preempt them, between the load and the store of a plain addition. */
static __always_inline void count_shared(enum drfq_event event, u64 many)
{
	__sync_fetch_and_add(&own_slot()->events[event], many);
}

/* Returns V (ns). */
static __always_inline u64 vtime_now(void)
{
	return READ_ONCE(system_vtime_ns.value);
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
	advance_to(&system_vtime_ns.value, min_start);
	return 0;
}

/*
 * Scans the next slots. At the end of a round, V advances to the smallest S met. The
 * caller has taken the scan.
 */
static __noinline int vtime_scan_slots(void)
{
	u32 i;

	bpf_for(i, 0, V_SCAN_SLOTS) {
		struct drfq_cpu *slot = cpu_slot(v_scan.next);
		u64 start;

		if (READ_ONCE(slot->pid)) {
			start = READ_ONCE(slot->vtime_ns);
			if (!v_scan.met++ || drfq_before(start, v_scan.min_start_ns))
				v_scan.min_start_ns = start;
		}
		if (++v_scan.next < nr_cpu_ids)
			continue;
		if (v_scan.met)
			vtime_advance(v_scan.min_start_ns);
		v_scan.met = 0;
		v_scan.next = 0;
		break;
	}
	return 0;
}

/* Returns whether the next round is due at @now (ns). */
static __always_inline bool vtime_round_due(u64 now)
{
	/* Scaled by V_SCAN_PARTS, in place of divisions. */
	u64 scaled = (now - READ_ONCE(v_scan.round_at_ns)) * V_SCAN_PARTS;

	/* Most switches need not look at the number of busy CPUs, which others write. */
	if (scaled < V_SCAN_PARTS_MIN * slice_ns || scaled >= V_SCAN_PARTS * slice_ns)
		return scaled >= V_SCAN_PARTS * slice_ns;
	return scaled >= READ_ONCE(busy_cpus.value) * slice_ns;
}

/* Returns whether the kernel loads or ends the scheduler now. */
static __always_inline bool vtime_stands_still(void)
{
	return READ_ONCE(v_scan.taken) >= DRFQ_V_SCAN_AWAITS;
}

/* V stands still from now on. */
static __always_inline void vtime_close(void)
{
	WRITE_ONCE(v_scan.taken, DRFQ_V_SCAN_CLOSED);
}

/* Where the kernel has let this CPU queue or continue a task, the loading is over. The next round
 * comes as long after this as after another round. A task that starts later with a smaller S is
 * out of order, see start_out_of_order(). @now: ns. */
static __always_inline void vtime_await(u64 now)
{
	const u64 *events = own_slot()->events;

	if (!events[DRFQ_EV_QUEUED] && !events[DRFQ_EV_DIRECT] && !events[DRFQ_EV_CONTINUED])
		return;
	WRITE_ONCE(v_scan.round_at_ns, now);
	__sync_val_compare_and_swap(&v_scan.taken, DRFQ_V_SCAN_AWAITS, DRFQ_V_SCAN_FREE);
}

/* A slot has changed: scans the next slots, if a round is under way or due. */
static __always_inline void vtime_refresh(void)
{
	u64 now = scx_bpf_now();
	bool first = !READ_ONCE(v_scan.next);
	u32 taken;

	if (first && !vtime_round_due(now))
		return;
	taken = READ_ONCE(v_scan.taken);
	if (taken == DRFQ_V_SCAN_AWAITS)
		vtime_await(now);
	if (taken ||
	    __sync_val_compare_and_swap(&v_scan.taken, DRFQ_V_SCAN_FREE, DRFQ_V_SCAN_TAKEN))
		return;
	if (first)
		WRITE_ONCE(v_scan.round_at_ns, now);
	vtime_scan_slots();
	/* An atomic operation, so that the next CPU sees what this one wrote. */
	__sync_val_compare_and_swap(&v_scan.taken, DRFQ_V_SCAN_TAKEN, DRFQ_V_SCAN_FREE);
}

#endif /* DRFQ_CPU_BPF_H */
