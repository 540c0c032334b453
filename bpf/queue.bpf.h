/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of runnable tasks: one DSQ per LLC, in order of virtual start
 * time. All queues share one V, so their heads can be compared: a CPU prefers
 * its own queue, looks at one other queue per dispatch, and takes from that one
 * if its head is clearly earlier. With one queue it is the thesis' order.
 */
#ifndef DRFQ_QUEUE_BPF_H
#define DRFQ_QUEUE_BPF_H

static __always_inline u32 llc_of_cpu(s32 cpu)
{
	return cpu_llc[cpu_index(cpu)];
}

static s32 queue_init(void)
{
	s32 err;
	u32 llc;

	bpf_for(llc, 0, nr_llcs) {
		err = scx_bpf_create_dsq(DRFQ_DSQ_LLC + llc, -1);
		if (err) {
			scx_bpf_error("cannot create the queue of LLC %u: %d", llc, err);
			return err;
		}
	}
	return 0;
}

/* Inserts into the queue of the task's CPU. @key: its place, S as a rule. */
static void queue_insert(struct task_struct *p, u64 key, u64 enq_flags)
{
	u64 dsq = DRFQ_DSQ_LLC + llc_of_cpu(scx_bpf_task_cpu(p));

	scx_bpf_dsq_insert_vtime(p, dsq, slice_ns, key, enq_flags);
	count(DRFQ_EV_QUEUED);
}

/* Tasks that a CPU looks past to find one that may run on it. */
#define QUEUE_SEARCH_MAX 16

/* The slow part of queue_head(): the head may not run on @cpu. */
static __noinline bool queue_search(u64 dsq, s32 cpu, u64 *start)
{
	struct task_struct *p;
	u32 looks = 0;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			*start = p->scx.dsq_vtime;
			return true;
		}
		if (++looks >= QUEUE_SEARCH_MAX)
			break;
	}
	return false;
}

/* S of the first task of @dsq that may run on @cpu. */
static bool queue_head(u64 dsq, s32 cpu, u64 *start)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq);

	if (!p)
		return false;
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return queue_search(dsq, cpu, start);
	*start = p->scx.dsq_vtime;
	return true;
}

/* The first other queue that has a task for @cpu. */
static bool queue_choose_other(s32 cpu, u32 llc, u64 *dsq, u64 *start)
{
	u32 i, other;

	bpf_for(i, 1, nr_llcs) {
		other = llc + i;
		if (other >= nr_llcs)
			other -= nr_llcs;
		if (queue_head(DRFQ_DSQ_LLC + other, cpu, start)) {
			*dsq = DRFQ_DSQ_LLC + other;
			return true;
		}
	}
	return false;
}

/*
 * The queue that the CPU should take from, in *@dsq, and the S of its head, in
 * *@start. False: no queue has a task for it. The other queue that is compared
 * is a random one: in turn, the turns fall into step with the slices, and the
 * same CPU meets the same queue each time.
 */
static bool queue_choose(s32 cpu, u64 *dsq, u64 *start)
{
	u32 llc = llc_of_cpu(cpu);
	u64 own = DRFQ_DSQ_LLC + llc, other, other_start;

	*dsq = own;
	if (!queue_head(own, cpu, start))
		return nr_llcs > 1 && queue_choose_other(cpu, llc, dsq, start);
	if (nr_llcs < 2)
		return true;
	other = DRFQ_DSQ_LLC + bpf_get_prandom_u32() % nr_llcs;
	if (other == own || !queue_head(other, cpu, &other_start) ||
	    !drfq_before(other_start + steal_margin_ns, *start))
		return true;
	*dsq = other;
	*start = other_start;
	return true;
}

/* Moves the first task of @dsq that may run here to this CPU. */
static __always_inline bool queue_take(u64 dsq, u64 own)
{
	if (!scx_bpf_dsq_move_to_local(dsq, 0))
		return false;
	if (dsq != own)
		count(DRFQ_EV_STEALS);
	return true;
}

/* Takes from any queue: @first, then the own one, then all others in turn. */
static bool queue_take_any(u64 first, u32 llc)
{
	u64 own = DRFQ_DSQ_LLC + llc;
	u32 i, other;

	if (queue_take(first, own))
		return true;
	if (first != own && queue_take(own, own))
		return true;
	if (nr_llcs < 2)
		return false;
	bpf_for(i, 1, nr_llcs) {
		other = llc + i;
		if (other >= nr_llcs)
			other -= nr_llcs;
		if (queue_take(DRFQ_DSQ_LLC + other, own))
			return true;
	}
	return false;
}

#endif /* DRFQ_QUEUE_BPF_H */
