/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Throttled tasks. A task whose group has used up its quota (quota.bpf.h) or its pace
 * (pace.bpf.h) waits in a queue of its own, in order of the times at which some is left.
 *
 * Kernel threads, tasks that exit or are killed, and tasks in a read section of RCU do
 * not wait: other tasks wait for them. Their time is charged.
 */
#ifndef DRFQ_THROTTLE_BPF_H
#define DRFQ_THROTTLE_BPF_H

/* How many tasks a look at the queue examines. */
#define THROTTLE_LOOKS_MAX 1024

/* After how long a throttled task is looked at again at the latest (ns): its quota may have
 * grown, or it was killed, while others were before it. */
#define THROTTLE_AGAIN_NS 1000000000ULL

/* Returns whether others may wait for @p, or for what it frees. */
static __always_inline bool throttle_exempts(const struct task_struct *p)
{
	return task_is_kthread(p) || task_ends(p) || task_reads_rcu(p);
}

/* Returns whether @p waits for a quota or a pace. */
static __always_inline bool throttle_waits(const struct task_struct *p)
{
	return p->scx.dsq && p->scx.dsq->id == DRFQ_DSQ_THROTTLED;
}

/* Returns until when the pace of @t makes @p wait (ns); 0: not. @waits: it waits, or did until
 * now. No member of a group waits for longer than a hold, however many there are. */
static __always_inline u64 paced_until(const struct task_struct *p, const struct task_ctx *t,
				       bool waits)
{
	u64 until = t->pace ? pace_until(t->pace) : 0;

	return until && !(waits && waits_since(p, hold_jiffies)) ? until : 0;
}

/* @t waits for a quota or a pace from now on. */
static __always_inline void throttle_begin(struct task_ctx *t)
{
	t->throttled_since_ns = scx_bpf_now();
}

/* @t waits no longer. */
static __always_inline void throttle_finish(struct task_ctx *t)
{
	u64 since = t->throttled_since_ns;

	if (since && __sync_val_compare_and_swap(&t->throttled_since_ns, since, 0) == since)
		t->throttled_ns += drfq_later(scx_bpf_now(), since) - since;
}

/* Returns the place in the queue of throttled tasks of one that waits until @until (ns). */
static __always_inline u64 throttle_key(u64 until)
{
	return drfq_earlier(until, scx_bpf_now() + THROTTLE_AGAIN_NS);
}

/* Returns until when @p, with account @t, must wait for its groups' quotas and its pace
 * (ns); 0: not. @waits: as above. */
static __always_inline u64 throttled_until(const struct task_struct *p, const struct task_ctx *t,
					   bool waits)
{
	u64 until, paced;

	if (!limits_exist())
		return 0;
	until = quota_charge(t->cgroup, 0);
	paced = paced_until(p, t, waits);
	if (paced && (!until || drfq_before(until, paced)))
		until = paced;
	return until && !throttle_exempts(p) ? until : 0;
}

/* Like throttled_until(), without the account. */
static __noinline bool throttles(struct task_struct *p, bool waits)
{
	struct task_ctx *t = task_ctx_of(p);

	return t && throttled_until(p, t, waits);
}

/*
 * If the groups of @p have used up their quotas or its pace, queues it until they have
 * some again. Meanwhile its weight counts for no group. Returns whether it did.
 */
static bool throttle(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u64 until;

	if (!limits_exist())
		return false;
	until = throttled_until(p, t, true);
	if (!until) {
		/* A change of nice or affinity may have taken it out of the queue. */
		throttle_finish(t);
		return false;
	}
	task_deactivate(t);
	urgent_end(t);
	/* A change of nice or affinity may have taken it out of this queue. */
	throttle_finish(t);
	throttle_begin(t);
	scx_bpf_dsq_insert_vtime(p, DRFQ_DSQ_THROTTLED, slice_ns, throttle_key(until), enq_flags);
	count(paced_until(p, t, true) ? DRFQ_EV_PACED : DRFQ_EV_THROTTLED);
	return true;
}

/* Returns until when @p, which is throttled, stays so (ns); 0: it may go back to its queue. One
 * that waits for very long gets a moment, or the kernel's watchdog would end the scheduler. */
static __always_inline u64 throttle_goes_on(const struct task_struct *p, const struct task_ctx *t)
{
	return t && !waits_late(p) ? throttled_until(p, t, true) : 0;
}

/*
 * Called by the timer: moves throttled tasks that may run back to their queues. @all: also
 * looks at the tasks that were to wait longer when they began to. Quotas and paces are
 * changed, and tasks are killed. A task that must wait on gets the place of its new time, so
 * that the next look begins with others.
 */
__noinline int throttle_release(u32 all)
{
	u64 now = scx_bpf_now();
	u32 looks = unknown_zero;
	struct task_struct *p;

	/* Older verifiers treat the timer as sleepable, because ops.init is. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, DRFQ_DSQ_THROTTLED, 0) {
		struct task_ctx *t = task_ctx_of(p);
		bool activated = false;
		u64 dsq, until;

		if (++looks > THROTTLE_LOOKS_MAX || (!all && drfq_before(now, p->scx.dsq_vtime)))
			break;
		until = throttle_goes_on(p, t);
		if (until) {
			/* Before those that ran in this period and wait for the next one. */
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, throttle_key(until) - 1);
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, DRFQ_DSQ_THROTTLED, 0);
			continue;
		}
		dsq = queue_of(p, t);
		if (t) {
			/* Before the move: it may run, and be throttled again, at once. */
			activated = task_activate(t);
			throttle_finish(t);
			flow_lift(&t->flow, vtime_local_by_last(scx_bpf_task_cpu(p)));
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, drfq_start(&t->flow));
		}
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq, 0)) {
			queue_announce(dsq);
			kick_idle_for(p);
		} else if (activated) {
			task_deactivate(t);
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

#endif /* DRFQ_THROTTLE_BPF_H */
