/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delayed wake-up (thesis 4.5.1). A task that was woken with more debt than
 * rule 4.10 allows waits in a DSQ of its own, even if a CPU idles, until
 *   - V has caught up, or
 *   - nothing else runs and nothing else is queued, or
 *   - it has waited for hold_max_ns.
 * Who acts: a CPU that dispatches moves what may go to a run queue; a CPU whose
 * tick or change of V makes a release due wakes an idle CPU to do that; and the
 * watch timer (timer.bpf.h) catches what a race between them left behind.
 */
#ifndef DRFQ_HOLD_BPF_H
#define DRFQ_HOLD_BPF_H

/*
 * Set when the held queue may have tasks: the only cost when it has none. Set
 * before the task is in its queue, because the kernel inserts it when ops.enqueue
 * has returned; so only the watch timer, which sets it again at its next turn if
 * it was too early, may clear it. A CPU that did so just then lost the task.
 */
static u32 held_hint;

static s32 hold_init(void)
{
	s32 err = scx_bpf_create_dsq(DRFQ_DSQ_HELD, -1);

	if (err)
		scx_bpf_error("cannot create the queue of held tasks: %d", err);
	return err;
}

/* Orders a slot's store before the look at the other slots: without it two
 * CPUs that fall idle at once may each believe that the other still runs. */
static __always_inline void hold_fence(void)
{
	__sync_fetch_and_add(&held_hint, 0);
}

/* Whether any CPU but @except runs a packet. */
static bool cpus_busy(s32 except)
{
	hold_fence();
	return vtime_scan(except) != 0;
}

/* Kernel threads are never held: others may wait for them. */
static bool hold_needed(struct task_struct *p, struct task_ctx *t)
{
	if (!(t->flags & DRFQ_TASK_INDEBTED) || task_is_kthread(p) || (p->flags & PF_EXITING))
		return false;
	return drfq_held(&t->flow, drfq_conf(), vtime_now()) && cpus_busy(-1);
}

/* How a held task may be released now; DRFQ_NR_EVENTS: not yet. */
static enum drfq_event hold_release_cause(struct task_ctx *t, bool all_idle)
{
	if (!drfq_held(&t->flow, drfq_conf(), vtime_now()))
		return DRFQ_EV_RELEASED_VTIME;
	if (scx_bpf_now() - t->held_since_ns >= hold_max_ns)
		return DRFQ_EV_RELEASED_BOUND;
	if (all_idle)
		return DRFQ_EV_RELEASED_IDLE;
	return DRFQ_NR_EVENTS;
}

/* Wakes idle CPUs for the held tasks that may go. @all_idle: no CPU is busy. */
static void hold_kick_idle(bool all_idle)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, DRFQ_DSQ_HELD, 0) {
		struct task_ctx *t = task_ctx_of(p);

		if (t && hold_release_cause(t, all_idle) == DRFQ_NR_EVENTS)
			continue;
		if (!kick_idle_for(p))
			break;
	}
}

static void hold_insert(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	if (!(t->flags & DRFQ_TASK_HELD)) {
		t->flags |= DRFQ_TASK_HELD;
		t->held_since_ns = scx_bpf_now();
		count(DRFQ_EV_HELD);
	}
	scx_bpf_dsq_insert_vtime(p, DRFQ_DSQ_HELD, slice_ns, drfq_start(&t->flow), enq_flags);
	WRITE_ONCE(held_hint, 1);
	/* The last busy CPU may have fallen idle since hold_needed() looked. */
	if (!cpus_busy(-1))
		kick_idle_for(p);
}

/* A hold ends because the task runs or leaves. */
static void hold_end(struct task_ctx *t)
{
	u64 waited;

	if (!(t->flags & DRFQ_TASK_HELD))
		return;
	t->flags &= ~DRFQ_TASK_HELD;
	waited = scx_bpf_now() - t->held_since_ns;
	t->held_ns += waited;
	if (waited > t->max_held_ns)
		t->max_held_ns = waited;
}

/*
 * From ops.dispatch: moves every held task that may go to @dsq, where it takes
 * its place by virtual time. Returns whether any moved.
 */
static bool hold_release(u64 dsq, bool all_idle)
{
	struct task_struct *p;
	bool moved = false;

	bpf_for_each(scx_dsq, p, DRFQ_DSQ_HELD, 0) {
		struct task_ctx *t = task_ctx_of(p);
		enum drfq_event cause = DRFQ_EV_RELEASED_BOUND;

		if (t)
			cause = hold_release_cause(t, all_idle);
		if (cause == DRFQ_NR_EVENTS)
			continue;
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq, 0))
			continue;
		if (t)
			hold_end(t);
		count(cause);
		kick_idle_for(p);
		moved = true;
		/* One is enough to end the idleness that let it go. */
		all_idle = false;
	}
	return moved;
}

/* Whether the held queue has tasks. */
static __always_inline bool hold_nonempty(void)
{
	return READ_ONCE(held_hint) && scx_bpf_dsq_nr_queued(DRFQ_DSQ_HELD) > 0;
}

/* From the watch timer: the same, whatever the hint says; the hint follows. */
static bool hold_update_hint(void)
{
	bool any = scx_bpf_dsq_nr_queued(DRFQ_DSQ_HELD) > 0;

	WRITE_ONCE(held_hint, any);
	return any;
}

#endif /* DRFQ_HOLD_BPF_H */
