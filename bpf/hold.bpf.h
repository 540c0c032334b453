/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delayed wake-up (thesis 4.5.1). A woken task that rule 4.10 holds waits in a
 * separate DSQ, even if a CPU is idle, until
 *   - V has caught up, or
 *   - no other task runs or is queued, or, if only contended CPUs are charged, a CPU
 *     is idle, or
 *   - it has waited for hold_max_ns.
 *
 * Held tasks are in order of their debts, so the first one is the first to be
 * released. Three places end a hold. A CPU that dispatches moves the first tasks that
 * may go to their run queues. A CPU that ticks or becomes idle wakes an idle CPU when
 * a release is due. The periodic timer (timer.bpf.h) finds the tasks that a race left
 * behind.
 */
#ifndef DRFQ_HOLD_BPF_H
#define DRFQ_HOLD_BPF_H

/*
 * Not 0 if the held queue may have tasks. Without held tasks, reading it is the only
 * cost of this file. The kernel inserts a task after ops.enqueue has returned, so
 * the hint is set before the task is in the queue. A CPU must not clear it, because
 * the insertion may still follow. Only the timer clears it, and corrects it in its
 * next period.
 */
static struct shared_u32 held_hint;

/* When the longest hold reaches its bound (scx_bpf_now(), ns); 0: no task is held. */
static struct shared_u64 hold_due_ns;

/* Least time between two searches for holds at their bound (ns). */
#define HOLD_SEARCH_NS 10000000

/*
 * Returns whether any CPU but @except (-1: any CPU) runs a packet. slot_set_pid()
 * changes the count atomically, so of two CPUs that become idle together at least one
 * sees 0.
 */
static bool cpus_busy(s32 except)
{
	u32 busy = READ_ONCE(busy_cpus.value);

	return busy > (except >= 0 && cpu_slot(except)->pid ? 1 : 0);
}

/*
 * Returns whether a hold of @p would serve a purpose. With DRFQ_CHARGE_CONTENDED a
 * task is held only while CPUs are contended, for only then does it cost any task.
 */
static __always_inline bool hold_useful(const struct task_struct *p)
{
	return conf.charging != DRFQ_CHARGE_CONTENDED ||
	       drfq_contended(drfq_conf(), flow_load(queue_has_waiters(scx_bpf_task_cpu(p))));
}

/* The part of hold_needed() for tasks that owe for DMA traffic. */
static __noinline bool hold_needed_in_debt(struct task_struct *p, struct task_ctx *t)
{
	if (task_ends(p) || was_released(p))
		return false;
	return drfq_held(&t->flow, drfq_conf(), vtime_now()) && hold_useful(p) && cpus_busy(-1);
}

/* Ends a hold, because the task is released, queued elsewhere, runs or exits. */
static void hold_end(struct task_ctx *t)
{
	u64 waited;

	if (!(t->flags & DRFQ_TASK_HELD))
		return;
	t->flags &= ~DRFQ_TASK_HELD;
	waited = scx_bpf_now();
	/* This CPU's clock may stand before the hold, which another CPU has begun. */
	waited = drfq_later(waited, t->held_since_ns) - t->held_since_ns;
	t->held_ns += waited;
	if (waited > t->max_held_ns)
		t->max_held_ns = waited;
}

/*
 * Returns whether @p must be held. Kernel threads never are: dma_charge() spares them. A task
 * that was released, and is queued again before it ran, is not held twice. A change of nice or
 * affinity queues a held task again, which may not be held any more.
 */
static __always_inline bool hold_needed(struct task_struct *p, struct task_ctx *t)
{
	if (t->flags & DRFQ_TASK_INDEBTED && hold_needed_in_debt(p, t))
		return true;
	hold_end(t);
	return false;
}

/*
 * Returns why the first held task may be released now; DRFQ_NR_EVENTS if it may not.
 * @all_idle: no CPU is busy.
 */
static enum drfq_event hold_release_cause(const struct task_struct *p, struct task_ctx *t,
					  bool all_idle)
{
	if (!drfq_held(&t->flow, drfq_conf(), vtime_now()))
		return DRFQ_EV_RELEASED_VTIME;
	if (all_idle || !hold_useful(p))
		return DRFQ_EV_RELEASED_IDLE;
	return DRFQ_NR_EVENTS;
}

/* Returns whether a hold has reached its bound. */
static __always_inline bool hold_overdue(void)
{
	u64 due = READ_ONCE(hold_due_ns.value);

	return due && !drfq_before(scx_bpf_now(), due);
}

/* How many held tasks one call releases, or wakes a CPU for. */
#define HOLD_BATCH 8

/* How many tasks that stay end a search that looks beyond them. */
#define HOLD_STAYS 32

/*
 * Returns whether @stays tasks that stay end a search. The queue is in order of debt, so the first
 * one is the first to be released by V. But it may stay for tasks that wait on a CPU of its own,
 * while CPUs idle that a later one may use.
 */
static __always_inline bool hold_search_ends(u32 stays)
{
	return stays >= HOLD_STAYS || conf.charging != DRFQ_CHARGE_CONTENDED ||
	       READ_ONCE(busy_cpus.value) >= conf.nr_cpus;
}

/* Wakes one idle CPU per held task that may be released. @all_idle: no CPU is busy. */
static void hold_kick_idle(bool all_idle)
{
	u32 kicked = unknown_zero, stays = unknown_zero;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, DRFQ_DSQ_HELD, 0) {
		struct task_ctx *t = task_ctx_of(p);
		bool may_go = !t || hold_overdue() ||
			      hold_release_cause(p, t, all_idle) != DRFQ_NR_EVENTS;

		if (may_go && kick_idle_for(p)) {
			if (++kicked >= HOLD_BATCH)
				break;
		} else if (hold_search_ends(++stays)) {
			break;
		}
	}
}

/* Holds @p: inserts it into the held queue, in order of debt, that is, of release. */
static void hold_insert(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	urgent_end(t);
	if (!(t->flags & DRFQ_TASK_HELD)) {
		t->flags |= DRFQ_TASK_HELD;
		t->held_since_ns = scx_bpf_now();
		count(DRFQ_EV_HELD);
		if (!READ_ONCE(hold_due_ns.value))
			WRITE_ONCE(hold_due_ns.value, t->held_since_ns + hold_max_ns);
	}
	scx_bpf_dsq_insert_vtime(p, DRFQ_DSQ_HELD, slice_ns, t->flow.debt_vt, enq_flags);
	if (!READ_ONCE(held_hint.value))
		WRITE_ONCE(held_hint.value, 1);
	/* The last busy CPU may have become idle since hold_needed(). */
	if (!cpus_busy(-1))
		kick_idle_for(p);
}

/* @t has run, or leaves the scheduler: what its last wake-up noted is over. @goes_on: it could run
 * on. */
static __always_inline void wake_end(struct task_ctx *t, bool goes_on)
{
	t->flags &= ~(DRFQ_TASK_WOKEN | DRFQ_TASK_INDEBTED | DRFQ_TASK_SYNC | DRFQ_TASK_PLACED |
		      DRFQ_TASK_GOES_ON);
	if (goes_on)
		t->flags |= DRFQ_TASK_GOES_ON;
	hold_end(t);
}

/*
 * Moves the held task @p of the iteration @it to its queue, in order of S, because of
 * @cause. Returns whether it was still held.
 */
#define hold_move(it, p, t, cause)                                                                 \
	({                                                                                         \
		u64 __dsq = queue_of(p, t);                                                        \
		bool __moved;                                                                      \
                                                                                                   \
		if (t) {                                                                           \
			scx_bpf_dsq_move_set_vtime(it, drfq_start(&(t)->flow));                    \
			urgent_begin(p, t);                                                        \
		}                                                                                  \
		scx_bpf_dsq_move_set_slice(it, RELEASED_SLICE);                                    \
		__moved = scx_bpf_dsq_move_vtime(it, p, __dsq, 0);                                 \
		if (__moved) {                                                                     \
			queue_announce(__dsq);                                                     \
			if (t)                                                                     \
				hold_end(t);                                                       \
			count(cause);                                                              \
			kick_idle_for(p);                                                          \
		} else if (t && !waiting_dsq(p)) {                                                 \
			/* No other CPU has just released it. */                                   \
			urgent_end(t);                                                             \
		}                                                                                  \
		__moved;                                                                           \
	})

/*
 * Called by ops.dispatch: moves the first held tasks that may be released to their
 * queues. @all_idle: no other CPU is busy. Returns how many tasks were moved. A global
 * function, like those of flow.bpf.h.
 */
__noinline int hold_release(bool all_idle)
{
	u32 moved = unknown_zero, stays = unknown_zero;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, DRFQ_DSQ_HELD, 0) {
		struct task_ctx *t = task_ctx_of(p);
		enum drfq_event cause = DRFQ_EV_RELEASED_BOUND;

		if (t)
			cause = hold_release_cause(p, t, all_idle);
		if (cause == DRFQ_NR_EVENTS) {
			if (hold_search_ends(++stays))
				break;
			continue;
		}
		if (!hold_move(BPF_FOR_EACH_ITER, p, t, cause))
			continue;
		if (++moved >= HOLD_BATCH)
			break;
		/* This task runs next, so the machine is no longer idle. */
		all_idle = false;
	}
	return (int)moved;
}

/*
 * Moves the tasks that were held for hold_max_ns to their queues. The held queue is
 * not in order of time, so this examines all held tasks, at most once in
 * HOLD_SEARCH_NS.
 */
static __noinline int hold_release_overdue(void)
{
	u64 now = scx_bpf_now(), was = READ_ONCE(hold_due_ns.value), due = 0;
	struct task_struct *p;

	/* Of the CPUs that find the same hold at its bound, one searches. */
	if (!was || drfq_before(now, was) ||
	    __sync_val_compare_and_swap(&hold_due_ns.value, was, now + HOLD_SEARCH_NS) != was)
		return 0;
	bpf_for_each(scx_dsq, p, DRFQ_DSQ_HELD, 0) {
		struct task_ctx *t = task_ctx_of(p);
		u64 end = t ? t->held_since_ns + hold_max_ns : now;

		if (!drfq_before(now, end))
			hold_move(BPF_FOR_EACH_ITER, p, t, DRFQ_EV_RELEASED_BOUND);
		else if (!due || drfq_before(end, due))
			due = end;
	}
	WRITE_ONCE(hold_due_ns.value, due ? drfq_later(due, now + HOLD_SEARCH_NS) : 0);
	return 0;
}

/* Called by the timer, while tasks are held: the next search looks at all of them if none is
 * due. One that is queued while another CPU searches may be missed. */
static void hold_rearm(void)
{
	if (!READ_ONCE(hold_due_ns.value))
		__sync_val_compare_and_swap(&hold_due_ns.value, 0, scx_bpf_now());
}

/* Returns whether the held queue has tasks. */
static __always_inline bool hold_nonempty(void)
{
	return READ_ONCE(held_hint.value) && scx_bpf_dsq_nr_queued(DRFQ_DSQ_HELD) > 0;
}

/* Called by the timer: sets the hint to whether the held queue has tasks. */
static bool hold_update_hint(void)
{
	bool any = scx_bpf_dsq_nr_queued(DRFQ_DSQ_HELD) > 0;

	if (READ_ONCE(held_hint.value) != any)
		WRITE_ONCE(held_hint.value, any);
	return any;
}

#endif /* DRFQ_HOLD_BPF_H */
