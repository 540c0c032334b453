/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The V by which tasks wake on a CPU. Tasks that are bound to CPUs with much weight fall behind a V
 * that the other CPUs advance. A task that wakes among them starts from their S.
 */
#ifndef DRFQ_LOCAL_BPF_H
#define DRFQ_LOCAL_BPF_H

/*
 * Returns S of the packet that @cpu, which a higher class has, runs next (ns); V, if none waits.
 * What the kernel has put back for the next turn is what ran last. A global function, like those
 * of flow.bpf.h.
 */
__noinline u64 local_vtime_of_taken(s32 cpu)
{
	struct queue_pick head = {};

	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0)
		return READ_ONCE(cpu_slot(cpu)->vtime_ns);
	queue_look_llc(llc_of_cpu(cpu), cpu, 0, &head);
	if (queue_pinned_wait(cpu))
		queue_look(DRFQ_DSQ_CPU + cpu, cpu, 0, &head);
	return head.dsq ? head.start : vtime_now();
}

/* Returns S of the packet that runs on @cpu (ns), or of the next one if a higher class has the CPU;
 * V, if it idles. */
static __always_inline u64 vtime_of_cpu(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	if (READ_ONCE(slot->pid))
		return READ_ONCE(slot->vtime_ns);
	return READ_ONCE(slot->taken) ? local_vtime_of_taken(cpu) : vtime_now();
}

/* Returns the V by which tasks wake on @cpu (ns): V, or S of its packet if that is earlier. */
static __always_inline u64 vtime_local(s32 cpu)
{
	return drfq_earlier(vtime_now(), vtime_of_cpu(cpu));
}

/*
 * The same by S of the last packet, if a higher class has the CPU. For ops.init_task and the timer,
 * which verifiers treat as sleepable: no global function may look into a queue there, and they
 * need minutes for looks that are inlined.
 */
static __always_inline u64 vtime_local_by_last(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);
	u64 v = vtime_now();

	if (!READ_ONCE(slot->pid) && !READ_ONCE(slot->taken))
		return v;
	return drfq_earlier(v, READ_ONCE(slot->vtime_ns));
}

#endif /* DRFQ_LOCAL_BPF_H */
