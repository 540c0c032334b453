/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that the loader decides. Read-only after load, so the verifier
 * folds the branches; one command line option each (scx_drfq/src/options.rs).
 */
#ifndef DRFQ_OPTIONS_BPF_H
#define DRFQ_OPTIONS_BPF_H

/* The machine and the constants of the algorithm: see drfq.h. */
const volatile struct drfq_conf conf = {
	.nr_cpus = 1,
	.best_effort = true,
};

/* Time that a packet may run before the queue is looked at again (ns). */
const volatile u64 slice_ns = 4000000;

/* enum drfq_weights. */
const volatile u32 weights_mode = DRFQ_WEIGHTS_KERNEL;

/* Queues, and which one each CPU belongs to. One queue: the thesis' shape. */
const volatile u32 nr_llcs = 1;
const volatile u32 nr_cpu_ids = 1;
const volatile u32 cpu_llc[DRFQ_MAX_CPUS];

/* A wake-up preempts a packet that is this much later in virtual time (ns). */
const volatile u64 preempt_margin_ns = 1000000;

/* Another LLC's head is taken before ours if it is this much earlier (ns). */
const volatile u64 steal_margin_ns = 1000000;

/* The longest time (wall clock, ns) that delayed wake-up may hold a task. */
const volatile u64 hold_max_ns = 1000000000;

/* A task queued for longer (wall clock, ns) goes to the front of its queue. */
const volatile u64 rescue_ns = 2000000000;

/* Bytes that one event of the traffic counter stands for; 0: no counter. */
const volatile u32 pmu_event_bytes;

/*
 * conf as the functions of drfq.h want it. The compiler must not see where the
 * pointer comes from, or it would fold the zeros above into the code.
 */
static __always_inline const struct drfq_conf *drfq_conf(void)
{
	const struct drfq_conf *c = (const struct drfq_conf *)&conf;

	asm volatile("" : "+r"(c));
	return c;
}

#endif /* DRFQ_OPTIONS_BPF_H */
