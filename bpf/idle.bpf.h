/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Idle CPUs, and waking one of them for a waiting task.
 */
#ifndef DRFQ_IDLE_BPF_H
#define DRFQ_IDLE_BPF_H

/* Wakes an idle CPU that may run @p. Returns whether there is one. */
static __always_inline bool kick_idle_for(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/*
 * Wakes an idle CPU for a queued task. Two races leave a queued task without a CPU:
 * - A CPU was woken for one task, and takes another. So this is called when a CPU
 *   leaves idleness, or finds nothing to dispatch.
 * - A task is queued while a CPU is about to idle, and sees no idle CPU. So this is
 *   called when a CPU becomes idle.
 * Returns whether a CPU was woken.
 */
static __noinline int kick_idle_for_queued(void)
{
	struct task_struct *p;
	u32 llc;

	bpf_for(llc, 0, nr_llcs) {
		u32 looks = 0;

		/* The usual case, and far cheaper than an iterator. */
		if (scx_bpf_dsq_nr_queued(DRFQ_DSQ_LLC + llc) <= 0)
			continue;
		bpf_for_each(scx_dsq, p, DRFQ_DSQ_LLC + llc, 0) {
			if (kick_idle_for(p))
				return 1;
			if (++looks >= QUEUE_SEARCH_MAX)
				break;
		}
	}
	return 0;
}

#endif /* DRFQ_IDLE_BPF_H */
