/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preemption: which running packet a woken task preempts if no CPU is idle.
 */
#ifndef DRFQ_PREEMPT_BPF_H
#define DRFQ_PREEMPT_BPF_H

/* Among how many CPUs a wake-up looks for a later packet, besides the task's own CPU. */
#define PREEMPT_PROBES 4

/* With how many of them it compares a task after V. Few packets start long after V, so such a
 * task rarely finds one that is later still, and each comparison loads a line of another CPU. */
#define PREEMPT_PROBES_AFTER_V 1

/*
 * Preempts the packet of @cpu if its S is later than @start (ns) by
 * preempt_margin_ns. Returns whether it did.
 */
static bool preempt_cpu(s32 cpu, u64 start)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	/* The comparison comes first, because it is what most often fails. */
	if (!drfq_before(start + preempt_margin_ns, READ_ONCE(slot->vtime_ns)))
		return false;
	if (!READ_ONCE(slot->pid) || READ_ONCE(slot->preempt_pending))
		return false;
	WRITE_ONCE(slot->preempt_pending, true);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	count(DRFQ_EV_PREEMPTS);
	return true;
}

/*
 * Like preempt_cpu(). If no task runs on @cpu, wakes it: it may have become idle, and looked at
 * the queues, before the task was queued. The kernel wakes no CPU that is not idle.
 */
static bool preempt_or_wake(s32 cpu, u64 start)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	if (!READ_ONCE(slot->pid) && !READ_ONCE(slot->taken))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return preempt_cpu(cpu, start);
}

/* Preempts one packet for @p, which is queued with S = @start (ns) and has no idle CPU. */
static void preempt_for(struct task_struct *p, u64 start)
{
	s32 first = scx_bpf_task_cpu(p), probe;
	u32 llc = llc_of_cpu(first), others = nr_cpu_ids - 1, left;

	if (preempt_or_wake(first, start) || task_is_pinned(p))
		return;
	left = drfq_before(vtime_now(), start) ? PREEMPT_PROBES_AFTER_V : PREEMPT_PROBES;
	bpf_for(probe, 0, others < PREEMPT_PROBES ? others : PREEMPT_PROBES) {
		/* Counted from the first one, not from the last: after a wrap to 0 the verifier
		 * would know each number, and follow each by itself beyond its limit. */
		s32 cpu = first + 1 + probe;

		if (cpu >= (s32)nr_cpu_ids)
			cpu -= nr_cpu_ids;
		if (llc_of_cpu(cpu) != llc || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (preempt_or_wake(cpu, start) || !--left)
			return;
	}
}

#endif /* DRFQ_PREEMPT_BPF_H */
