/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Urgent tasks: those that may be rescued early (rescue.bpf.h). A task is urgent if it was
 * preempted in a read section of RCU, or is a kernel thread: others wait for it. It also is
 * if it was held (hold.bpf.h): it may be far after V.
 *
 * Whether a task is urgent does not change while it waits. So each CPU counts the urgent
 * tasks that wait on its run queue, from the insertion into a queue until the end of the
 * packet. Where the count is 0, no search for them is made.
 */
#ifndef DRFQ_URGENT_BPF_H
#define DRFQ_URGENT_BPF_H

/*
 * The slice of a task that was released from a hold and has not run since (ns). It marks the
 * task where its account cannot be looked up, as in the search for starved tasks.
 */
#define RELEASED_SLICE (slice_ns + 1)

/* Returns whether @p was released from a hold and has not run since. */
static __always_inline bool was_released(const struct task_struct *p)
{
	return p->scx.slice == RELEASED_SLICE;
}

/* Returns whether @p is in a read section of RCU. Each BPF program makes one around
 * itself, in the current task. */
static __always_inline bool task_reads_rcu(const struct task_struct *p)
{
	s32 nesting = 0;

	if (bpf_core_field_exists(p->rcu_read_lock_nesting))
		nesting = p->rcu_read_lock_nesting;
	/* Most tasks are in none: the call is for the others. */
	return nesting > 1 || (nesting == 1 && (u32)p->pid != (u32)bpf_get_current_pid_tgid());
}

static __always_inline bool task_is_urgent(const struct task_struct *p)
{
	return task_is_kthread(p) || was_released(p) || task_reads_rcu(p);
}

/* The slow path of urgent_end(). */
__noinline int urgent_uncount(struct task_ctx *t __arg_nonnull)
{
	u32 counted = __sync_lock_test_and_set(&t->urgent_cpu, 0);

	if (counted)
		__sync_fetch_and_add(&cpu_slot(counted - 1)->urgent_waiting, -1);
	return 0;
}

/* The task with account @t does not wait any more: takes it out of the count if it is
 * urgent. */
static __always_inline void urgent_end(struct task_ctx *t)
{
	if (READ_ONCE(t->urgent_cpu))
		urgent_uncount(t);
}

/* The urgent task @p, with @t, is about to wait on the run queue of its CPU: counts it. */
static void urgent_begin(const struct task_struct *p, struct task_ctx *t)
{
	u32 counts = scx_bpf_task_cpu(p) + 1, counted;

	if (READ_ONCE(t->urgent_cpu) == counts)
		return;
	/* Two CPUs may release it from a hold at the same time. */
	counted = __sync_lock_test_and_set(&t->urgent_cpu, counts);
	if (counted == counts)
		return;
	__sync_fetch_and_add(&cpu_slot(counts - 1)->urgent_waiting, 1);
	/* The kernel moved it here while it waited for another CPU. */
	if (counted)
		__sync_fetch_and_add(&cpu_slot(counted - 1)->urgent_waiting, -1);
}

#endif /* DRFQ_URGENT_BPF_H */
