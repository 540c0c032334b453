/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a woken task goes: which CPU it is sent to, and which running packet
 * it preempts if no CPU idles.
 */
#ifndef DRFQ_PLACE_BPF_H
#define DRFQ_PLACE_BPF_H

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
static __noinline int pass_on(void)
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
			if (++looks >= QUEUE_LOOKS)
				break;
		}
	}
	return 0;
}

/* CPUs that a wake-up looks at for a later packet, besides the previous one. */
#define PREEMPT_PROBES 4

/* Preempts the packet of @cpu if it is clearly later than @start. */
static bool preempt_cpu(s32 cpu, u64 start)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	if (!READ_ONCE(slot->pid) || READ_ONCE(slot->claimed))
		return false;
	if (!drfq_before(start + preempt_margin_ns, READ_ONCE(slot->vtime_ns)))
		return false;
	WRITE_ONCE(slot->claimed, true);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	count(DRFQ_EV_PREEMPTS);
	return true;
}

/* @p was queued with S = @start and no CPU is idle for it. */
static void preempt_for(struct task_struct *p, u64 start)
{
	s32 cpu = scx_bpf_task_cpu(p), probe;
	u32 llc = llc_of_cpu(cpu);

	if (preempt_cpu(cpu, start) || task_is_pinned(p))
		return;
	bpf_for(probe, 0, PREEMPT_PROBES) {
		if (++cpu >= (s32)nr_cpu_ids)
			cpu = 0;
		if (llc_of_cpu(cpu) != llc || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (preempt_cpu(cpu, start))
			return;
	}
}

#endif /* DRFQ_PLACE_BPF_H */
