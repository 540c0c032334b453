/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Idle CPUs: which one is woken for a task that waits.
 */
#ifndef DRFQ_IDLE_BPF_H
#define DRFQ_IDLE_BPF_H

/* Wakes an idle CPU that may run @p, if there is one. */
static __always_inline bool kick_idle_for(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/*
 * Wakes an idle CPU for what waits: after a CPU left idleness or was woken in
 * vain, because another task may have taken it from the one it was woken for;
 * and when a CPU falls idle, because what was queued just before saw no idle CPU.
 */
static __noinline int kick_idle_for_queued(void)
{
	struct task_struct *p;
	u32 llc;

	bpf_for(llc, 0, nr_llcs) {
		u32 looks = 0;

		/* Nearly always, and far cheaper than an iterator. */
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
