/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the loader decides, from the command line and the machine. These variables
 * are read-only after load, so the verifier removes the branches that they disable.
 */
#ifndef DRFQ_OPTIONS_BPF_H
#define DRFQ_OPTIONS_BPF_H

/* The machine and the algorithm's constants: see drfq.h. */
const volatile struct drfq_conf conf = {
	.nr_cpus = 1,
	.charging = DRFQ_CHARGE_CONTENDED,
};

/* Longest time that a packet runs before its CPU looks at the queue (ns). */
const volatile u64 slice_ns = 4000000;

/* How nice values become weights: enum drfq_weights. */
const volatile u32 weights_mode = DRFQ_WEIGHTS_KERNEL;

/* Not 0: only tasks of the policy SCHED_EXT are scheduled; all others go first. */
const volatile u32 partial;

/*
 * Number of LLCs, one queue each; number of possible CPUs; the LLC of each CPU. Here, an
 * LLC with many CPUs counts as several, so that few CPUs share a queue's lock. One LLC
 * gives the single queue of the thesis.
 */
const volatile u32 nr_llcs = 1;
const volatile u32 nr_cpu_ids = 1;
const volatile u32 cpu_llc[DRFQ_MAX_CPUS];

/* A row of DRFQ_MAX_LLCS for each LLC: all LLCs, the nearest first, which is itself. */
const volatile u8 near_llcs[DRFQ_MAX_LLCS * DRFQ_MAX_LLCS];

/*
 * A row for each LLC: a CPU of it takes the head of another LLC if its S is earlier by
 * this (ns of virtual time). It is 0 if both are parts of one cache.
 */
const volatile u64 steal_margins_ns[DRFQ_MAX_LLCS * DRFQ_MAX_LLCS];

/* Not 0: the CPU is possible, but offline. Affinities need not have it. */
const volatile u32 cpu_offline[DRFQ_MAX_CPUS];

/* A woken task preempts a packet whose S is later by this (ns of virtual time). */
const volatile u64 preempt_margin_ns = 1000000;

/* Longest time that delayed wake-up holds a task (wall clock, ns). */
const volatile u64 hold_max_ns = 300000000;

/* A task that waits for longer may run ahead of its turn (wall clock, ns). */
const volatile u64 rescue_ns = 2000000000;

/*
 * Not 0: the agent drives a memory controller, so CPUs label their traffic
 * (label.bpf.h). The virtual times in labels have units of 2^register_shift ns.
 */
const volatile u32 drives_controller;
const volatile u32 register_shift = DRFQ_REGISTER_SHIFT;

/* Traffic counters that a CPU has at most; 0: there is no PMU. */
const volatile u32 pmu_nr_events;

/* The flag of a request whose queueing the kernel has traced; 0: not known. */
const volatile u32 bio_traced_flag;

/* Not 0: the kernel tells of folios that become dirty (dirtier.bpf.h). */
const volatile u32 tracks_dirtiers;

/*
 * A pointer to conf without the volatile qualifier, for drfq.h. The asm statement
 * hides its origin: otherwise the compiler would use the initial values above.
 */
static __always_inline const struct drfq_conf *drfq_conf(void)
{
	const struct drfq_conf *c = (const struct drfq_conf *)&conf;

	asm volatile("" : "+r"(c));
	return c;
}

#endif /* DRFQ_OPTIONS_BPF_H */
