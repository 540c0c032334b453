/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of runnable tasks: one DSQ per LLC, in order of S. All queues share one
 * V, so their heads can be compared. A CPU prefers the queue of its own LLC. Each
 * dispatch compares it with one other queue, and takes from that one if its head is
 * earlier by steal_margin_ns. With one LLC this is the order of the thesis.
 */
#ifndef DRFQ_QUEUE_BPF_H
#define DRFQ_QUEUE_BPF_H

/* Returns the LLC of @cpu, from 0 to nr_llcs - 1. */
static __always_inline u32 llc_of_cpu(s32 cpu)
{
	return cpu_llc[cpu_index(cpu)];
}

/* Creates the queues. Returns 0 or a negative errno. */
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

/* Returns the DSQ of the LLC of the task's CPU. */
static __always_inline u64 queue_of(const struct task_struct *p)
{
	return DRFQ_DSQ_LLC + llc_of_cpu(scx_bpf_task_cpu(p));
}

/*
 * The LLCs whose queues may have tasks, one bit each, if there are several. A task may
 * wait in the queue of one LLC for a CPU of another. The bits are written only when
 * they change. Bits are hints: the kernel inserts a task after ops.enqueue has
 * returned, so a CPU may clear a bit in between. The next insertion sets it again.
 */
static u64 queued_llcs;

/* A task is inserted into the queue of @llc. */
static __always_inline void queue_mark(u32 llc)
{
	u64 bit = 1ULL << (llc & (DRFQ_MAX_LLCS - 1));

	if (nr_llcs > 1 && !(READ_ONCE(queued_llcs) & bit))
		__sync_fetch_and_or(&queued_llcs, bit);
}

/* The queue of @llc had no task for one of its CPUs: clears its bit if it is empty. */
static __always_inline void queue_unmark(u32 llc)
{
	u64 bit = 1ULL << (llc & (DRFQ_MAX_LLCS - 1));

	if ((READ_ONCE(queued_llcs) & bit) && !scx_bpf_dsq_nr_queued(DRFQ_DSQ_LLC + llc))
		__sync_fetch_and_and(&queued_llcs, ~bit);
}

/* Returns whether a task waits in any queue that CPUs of the LLC of @p take from. */
static __always_inline bool queue_has_waiters(const struct task_struct *p)
{
	return READ_ONCE(queued_llcs) || scx_bpf_dsq_nr_queued(queue_of(p)) > 0;
}

/* Inserts @p into its LLC's queue. @key: its place there (ns), usually S. */
static void queue_insert(struct task_struct *p, u64 key, u64 enq_flags)
{
	queue_mark(llc_of_cpu(scx_bpf_task_cpu(p)));
	scx_bpf_dsq_insert_vtime(p, queue_of(p), slice_ns, key, enq_flags);
	count(DRFQ_EV_QUEUED);
}

/* How many queued tasks a search examines to find one that may run on a CPU. */
#define QUEUE_SEARCH_MAX 16

/* The slow path of queue_head(), for a head that may not run on @cpu. */
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

/*
 * Finds the first task of @dsq that may run on @cpu, among QUEUE_SEARCH_MAX, and
 * stores its key in *@start (ns). Returns whether there is one.
 */
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

/* Finds the first other queue with a task for @cpu. Like queue_choose(). */
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
 * Finds the queue that @cpu should take from. Stores its id in *@dsq and its head's
 * key in *@start (ns). Returns whether any queue has a task for @cpu. The queue that
 * is compared is drawn at random. A round robin falls into step with the slices, so
 * that each CPU always compares the same queue.
 */
static bool queue_choose(s32 cpu, u64 *dsq, u64 *start)
{
	u32 llc = llc_of_cpu(cpu);
	u64 own = DRFQ_DSQ_LLC + llc, other, other_start;

	*dsq = own;
	if (!queue_head(own, cpu, start)) {
		queue_unmark(llc);
		return nr_llcs > 1 && queue_choose_other(cpu, llc, dsq, start);
	}
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

/* Moves the first task of @dsq that may run on this CPU to its local DSQ. @own: the
 * id of the CPU's own queue. Returns whether a task was moved. */
static __always_inline bool queue_take(u64 dsq, u64 own)
{
	if (!scx_bpf_dsq_move_to_local(dsq, 0))
		return false;
	if (dsq != own)
		count(DRFQ_EV_STEALS);
	return true;
}

/* Takes a task from the first queue that has one: @first, the own, all others. */
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
