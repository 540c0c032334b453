/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The place of a task that is woken synchronously (SCX_WAKE_SYNC). Its waker says that it is
 * about to block and makes room. So the task waits at S of its waker, if that is later than
 * its own. A waker that does not block thus lets messages gather, and what it wakes reads many
 * of them in a packet. By its own S it would often be the next task, and another CPU would take
 * it for each message.
 *
 * A waker whose last packet ended while it could run on will hardly block. What it wakes waits at
 * the latest place that there is (place_limit()).
 *
 * Only the order changes. The packet starts at the task's own S (start_of_placed()).
 */
#ifndef DRFQ_PLACE_BPF_H
#define DRFQ_PLACE_BPF_H

/* A part of the kernel's preempt_count: this CPU handles a softirq. */
#define PREEMPT_SOFTIRQ (1 << 8)

/* Of x86. */
extern const int __preempt_count __ksym __weak;

/*
 * Returns whether the current task was interrupted, so that it is no waker. Cards wake readers
 * from softirqs, and the kernel calls that synchronous. Where the kernel has no such variable, the
 * answer is no.
 */
static __always_inline bool in_softirq(void)
{
	if (!bpf_ksym_exists(&__preempt_count))
		return false;
	return *(const int *)bpf_this_cpu_ptr(&__preempt_count) & PREEMPT_SOFTIRQ;
}

/* The start of a packet counts up to so many rounds after V. */
#define PLACE_MAX_ROUNDS 2

/*
 * Returns the latest place of @p, which the task on the CPU of @slot wakes (ns): half a round after
 * the start of that one's packet. V may be long before that start, because what was woken since
 * starts behind. In a round each task that waits runs for a slice, and S grows by a slice over the
 * CPUs.
 *
 * While nothing waits, packets of low weight start far after V. Their start counts up to a limit.
 * That of a CPU with another cache does not count, because @p waits in another queue.
 */
static __always_inline u64 place_limit(const struct drfq_cpu *slot, const struct task_struct *p)
{
	u64 round = slice_ns / drfq_cpu_divisor(drfq_conf(), READ_ONCE(busy_cpus.value));
	s32 own = bpf_get_smp_processor_id(), cpu = scx_bpf_task_cpu(p);
	u64 v = vtime_local(cpu), start = v;

	if (llc_of_cpu(cpu) == llc_of_cpu(own))
		start = drfq_earlier(READ_ONCE(slot->vtime_ns), v + PLACE_MAX_ROUNDS * round);
	return drfq_later(start, v) + round / 2;
}

/*
 * The current task wakes @p, with account @t, synchronously: notes the place of @p. It has none
 * where its waker's CPU is not one of its own, because the tasks there may be anywhere in the
 * order.
 */
static __noinline void place_after_waker(struct task_struct *p, struct task_ctx *t)
{
	struct drfq_cpu *slot = own_slot();
	struct drfq_flow waker;
	struct task_ctx *w;

	if (!bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr))
		return;
	w = task_ctx_of(bpf_get_current_task_btf());
	if (!w)
		return;
	t->place_ns = place_limit(slot, p);
	t->flags |= DRFQ_TASK_PLACED;
	if (w->flags & DRFQ_TASK_GOES_ON)
		return;
	waker = w->flow;
	flow_charge(&waker, scx_bpf_now() - slot->charged_at_ns, 0, flow_load(true));
	t->place_ns = drfq_earlier(drfq_start(&waker), t->place_ns);
}

/* Returns the place of @t in the order of S (ns). */
static __always_inline u64 place_of(const struct task_ctx *t)
{
	u64 start = drfq_start(&t->flow);

	return t->flags & DRFQ_TASK_PLACED ? drfq_later(start, t->place_ns) : start;
}

/* Returns S of @p, whose place was another one (ns). */
static __noinline u64 start_of_placed(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	return t ? drfq_start(&t->flow) : p->scx.dsq_vtime;
}

#endif /* DRFQ_PLACE_BPF_H */
