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
 * Returns the CPU for @p, which wakes and was on @prev last; *@idle: it idles, and is claimed for
 * @p. While any CPU idles, the kernel calls that of a synchronous waker idle. A task that goes
 * there runs next, without ops.dispatch, so others that wait for that CPU would lose their turn.
 */
static __noinline s32 choose_cpu(struct task_struct *p, s32 prev, u64 wake_flags, bool *idle)
{
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev, wake_flags, idle);

	if (!*idle || !(wake_flags & SCX_WAKE_SYNC) || cpu != (s32)bpf_get_smp_processor_id() ||
	    !queue_has_waiters(cpu))
		return cpu;
	return scx_bpf_select_cpu_dfl(p, prev, wake_flags & ~(u64)SCX_WAKE_SYNC, idle);
}

/* How many tasks of a queue are asked for an idle CPU. */
#define KICK_LOOKS_MAX 16

/* Wakes an idle CPU for one of the first tasks of @dsq. Returns whether there is one. */
static bool kick_idle_for_any(u64 dsq)
{
	struct task_struct *p;
	u32 looks = unknown_zero;

	/* The usual case, and far cheaper than an iterator. */
	if (scx_bpf_dsq_nr_queued(dsq) <= 0)
		return false;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (kick_idle_for(p))
			return true;
		if (++looks >= KICK_LOOKS_MAX)
			break;
	}
	return false;
}

/* kick_idle_for_any() for both queues of @llc. */
static bool kick_idle_for_llc(u32 llc)
{
	return kick_idle_for_any(DRFQ_DSQ_LLC + llc) ||
	       (READ_ONCE(partial_used[llc & (DRFQ_MAX_LLCS - 1)]) &&
		kick_idle_for_any(DRFQ_DSQ_PARTIAL + llc));
}

/*
 * Wakes an idle CPU for a queued task. Two races leave a queued task without a CPU:
 * - A CPU was woken for one task, and takes another. So this is called when a CPU
 *   leaves idleness, or finds nothing to dispatch.
 * - A task is queued while a CPU is about to idle, and sees no idle CPU. So this is
 *   called when a CPU becomes idle.
 * The queues are tried in the order of their distance from @cpu. Returns whether a CPU
 * was woken.
 */
static __noinline int kick_idle_for_queued(s32 cpu)
{
	u32 i, near, llc = llc_of_cpu(cpu);
	u64 others;

	if (kick_idle_for_llc(llc))
		return 1;
	others = queue_other_llcs(llc);
	if (!others)
		return 0;
	bpf_for(i, 1, nr_llcs) {
		near = llc_near(llc, i);
		if ((others & 1ULL << (near & (DRFQ_MAX_LLCS - 1))) && kick_idle_for_llc(near))
			return 1;
	}
	return 0;
}

/*
 * Wakes each idle CPU that pinned tasks wait for. A pinned task wakes its CPU when it is
 * queued, so this is only for races: the timer calls it.
 */
static void kick_idle_for_pinned(void)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		if (!READ_ONCE(cpu_slot(cpu)->pid) && queue_pinned_wait(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

#endif /* DRFQ_IDLE_BPF_H */
