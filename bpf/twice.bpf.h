/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs that come in pairs. The kernel skips a call of a program while another call of it has
 * not ended on that CPU. It may preempt a program at a function, and Linux 7.3, unlike 6.18, one at
 * a tracepoint, so that it misses what the next tasks do. A pair misses an event only where both
 * are preempted.
 */
#ifndef DRFQ_TWICE_BPF_H
#define DRFQ_TWICE_BPF_H

/* The pairs. */
enum twice_pair {
	TWICE_QUEUE,
	TWICE_REMAP,
	TWICE_PASS_THROUGH,
	TWICE_DIRTY,
};

/*
 * Returns where an event of @pair is, of which @at tells where on a disk or in a file. An address
 * alone is not enough: the next event of the task may have it, too, in this pair or another one.
 */
static __always_inline u64 twice_where(enum twice_pair pair, u64 at)
{
	return at << 2 | pair;
}

/*
 * Returns whether the first program of the pair has handled @event (an address), which the
 * current task, that of @t (NULL: not known), causes @where (twice_where()). The kernel runs
 * the first program first (devices.rs attaches those of functions in the reverse order). The
 * second program leaves events of the idle task to the first one; nothing preempts that.
 */
static __always_inline bool twice_handled(struct task_ctx *t, const void *event, u64 where,
					  bool second)
{
	bool handled;

	if (!t)
		return second;
	handled = second && t->handled_event == (u64)event && t->handled_where == where;
	t->handled_event = second ? 0 : (u64)event;
	t->handled_where = where;
	return handled;
}

#endif /* DRFQ_TWICE_BPF_H */
