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

/* An odd number whose multiples have no pattern (2^64 divided by the golden ratio). */
#define TWICE_SPREAD 0x9e3779b97f4a7c15ULL

/*
 * Returns the mark of @event (an address) of @pair, of which @at tells where on a disk or in a
 * file. An address alone is not enough: the next event of the task may have it, too, in this pair
 * or another one. Never 0.
 */
static __always_inline u64 twice_mark(enum twice_pair pair, const void *event, u64 at)
{
	/* To the verifier, a pointer less another one is a number. */
	u64 number = (u64)event - (u64)&verifier_zero;

	asm volatile("" : "+r"(number));
	return (number + (at << 2 | pair) * TWICE_SPREAD) ?: 1;
}

/* The part of twice_handled() that needs the account. @slot: the CPU's; NULL: another class runs
 * @p. */
static __noinline bool twice_handled_by_account(struct task_struct *p, u64 mark, bool second,
						struct drfq_cpu *slot)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	bool handled;

	if (!t)
		return second;
	handled = second && t->handled_mark == mark;
	t->handled_mark = second ? 0 : mark;
	if (slot)
		WRITE_ONCE(slot->handled_mark, 0);
	return handled;
}

/*
 * Returns whether the first program of the pair has handled the event of @mark, which @p, the
 * current task, causes. The kernel runs the first program first (devices.rs attaches those of
 * functions in the reverse order).
 *
 * The first program leaves a mark, and the second one removes it. While this scheduler runs @p,
 * the mark is at its CPU. So neither looks for its account. Where @p stops in between, its account
 * has the mark (twice_keep()). The second program leaves events of the idle task to the first one;
 * nothing preempts that.
 */
static __always_inline bool twice_handled(struct task_struct *p, u64 mark, bool second)
{
	struct drfq_cpu *slot = own_slot();

	if (!slot_runs(slot, p))
		return twice_handled_by_account(p, mark, second, NULL);
	if (!second) {
		WRITE_ONCE(slot->handled_mark, mark);
		return false;
	}
	if (READ_ONCE(slot->handled_mark) != mark)
		return twice_handled_by_account(p, mark, second, slot);
	WRITE_ONCE(slot->handled_mark, 0);
	return true;
}

/* The task of @t stops on the CPU of @slot. Its account has its mark from now on. */
static __always_inline void twice_keep(struct drfq_cpu *slot, struct task_ctx *t)
{
	u64 mark = READ_ONCE(slot->handled_mark);

	if (!mark)
		return;
	t->handled_mark = mark;
	/* It may stop by another CPU, and run on here. */
	__sync_val_compare_and_swap(&slot->handled_mark, mark, 0);
}

#endif /* DRFQ_TWICE_BPF_H */
