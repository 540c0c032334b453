/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starved tasks. Fair queueing starves no task, but may serve a low weight among high
 * ones, or one of many tasks, less than once in 30 s. Then the kernel's watchdog ends
 * the scheduler. So a CPU that dispatches may take one of these before the order of S:
 *   - an urgent task that waited for RESCUE_URGENT_NS. A task is urgent if it was
 *     preempted in a read section of RCU, or is a kernel thread: others wait for it.
 *   - any task that waited for rescue_ns.
 *
 * The packet is charged as usual. All such packets of a CPU have a budget of
 * 1/DRFQ_BUDGET_PART of its time, and half of what it saves up is for urgent tasks. They
 * may be many, and each waits again at once, so every second rescue takes the task that
 * waits longest. So at most about that part of a CPU departs from the weights, unless a
 * task waits for RESCUE_ALWAYS_NS: then it is taken without a budget, after what the budget
 * allows. No weight holds if the watchdog ends the scheduler.
 *
 * The kernel keeps the tasks that wait on a CPU's run queue in a list, in the order in
 * which they began to wait. ops.dispatch holds the lock of that list. So the task that
 * waits longest is found without a search. Urgent tasks may be anywhere in the list:
 * each dispatch looks at some and goes on from there at the next one.
 */
#ifndef DRFQ_RESCUE_BPF_H
#define DRFQ_RESCUE_BPF_H

/* How long an urgent task waits before it may be rescued (wall clock, ns). */
#define RESCUE_URGENT_NS 500000000ULL

/* Longer waits are counted (wall clock, ns). */
#define RESCUE_LATE_NS 10000000000ULL

/* How long any task waits before it is rescued without a budget (wall clock, ns): half of
 * what the watchdog allows. */
#define RESCUE_ALWAYS_NS 15000000000ULL

/* What a budget must have left for a task that is not urgent (wall clock, ns). */
#define RESCUE_RESERVE_NS (DRFQ_BUDGET_WINDOW_NS / 2)

/* How many waiting tasks a dispatch examines at most. */
#define RESCUE_STEPS 64

extern struct rq runqueues __ksym;

/* RESCUE_URGENT_NS, rescue_ns, the smaller of both, RESCUE_LATE_NS and RESCUE_ALWAYS_NS in
 * jiffies; 0 until the timer has measured the length of a jiffy. */
static u64 urgent_jiffies, starved_jiffies, rescue_jiffies, late_jiffies, always_jiffies;

/* The timer's first reading of both clocks. */
static u64 first_ns, first_jiffies;

/*
 * Called by the timer: measures the length of a jiffy with both clocks. CONFIG_HZ is
 * not used, because it needs a kernel configuration that libbpf can read.
 */
static void rescue_measure_jiffy(void)
{
	u64 now = bpf_ktime_get_ns(), jiffies = bpf_jiffies64(), jiffy_ns;

	if (!first_ns) {
		first_ns = now;
		first_jiffies = jiffies;
		return;
	}
	if (jiffies == first_jiffies)
		return;
	jiffy_ns = (now - first_ns) / (jiffies - first_jiffies);
	if (!jiffy_ns)
		return;
	urgent_jiffies = RESCUE_URGENT_NS / jiffy_ns;
	starved_jiffies = rescue_ns / jiffy_ns;
	late_jiffies = RESCUE_LATE_NS / jiffy_ns;
	always_jiffies = RESCUE_ALWAYS_NS / jiffy_ns;
	WRITE_ONCE(rescue_jiffies,
		   urgent_jiffies < starved_jiffies ? urgent_jiffies : starved_jiffies);
}

/* Returns whether @p has waited for a CPU for too long. */
static __always_inline bool waits_late(const struct task_struct *p)
{
	return late_jiffies && bpf_jiffies64() - p->scx.runnable_at > late_jiffies;
}

/* Counts @p, which gets a CPU, if it waited for too long. */
static __always_inline void rescue_count_late(const struct task_struct *p)
{
	if (waits_late(p))
		count(DRFQ_EV_LATE);
}

/* Returns the task of a list of waiting tasks. */
static __always_inline struct task_struct *waiting_task(struct list_head *node)
{
	return bpf_core_cast((void *)node -
				     bpf_core_field_offset(struct task_struct, scx.runnable_node),
			     struct task_struct);
}

static __always_inline bool task_is_urgent(const struct task_struct *p)
{
	if (bpf_core_field_exists(p->rcu_read_lock_nesting) && p->rcu_read_lock_nesting > 0)
		return true;
	return task_is_kthread(p);
}

/* Returns how long the longest wait on the run queue of @cpu is (jiffies). */
static __always_inline u64 longest_wait(s32 cpu)
{
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct list_head *first;

	if (!rq)
		return 0;
	first = rq->scx.runnable_list.next;
	if (first == &rq->scx.runnable_list)
		return 0;
	return bpf_jiffies64() - waiting_task(first)->scx.runnable_at;
}

/*
 * Returns the place after the task with thread id @pid in the list of @cpu; NULL if the
 * task is not in it.
 */
static __always_inline struct list_head *place_after(u32 pid, s32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct list_head *next = NULL;

	if (!p)
		return NULL;
	if (scx_bpf_task_cpu(p) == cpu && (p->scx.flags & SCX_TASK_QUEUED) &&
	    p->scx.runnable_node.next != &p->scx.runnable_node)
		next = p->scx.runnable_node.next;
	bpf_task_release(p);
	return next;
}

/*
 * Returns the thread id of the first task that has waited on the run queue of @cpu for
 * @least (jiffies); 0 if none was found. @urgent: only an urgent one; the search goes on
 * where the last one ended.
 */
static __noinline u32 rescue_find(s32 cpu, u64 least, bool urgent)
{
	u64 jiffies = bpf_jiffies64();
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct list_head *node = NULL;
	u32 i, last = 0;

	if (!rq)
		return 0;
	if (urgent && slot->rescue_cursor)
		node = place_after(slot->rescue_cursor, cpu);
	if (!node)
		node = rq->scx.runnable_list.next;
	bpf_for(i, 0, RESCUE_STEPS) {
		struct task_struct *p = waiting_task(node);

		if (node == &rq->scx.runnable_list || jiffies - p->scx.runnable_at < least) {
			last = 0;
			break;
		}
		last = p->pid;
		if (waiting_dsq(p) && (!urgent || task_is_urgent(p)))
			return last;
		node = p->scx.runnable_node.next;
	}
	if (urgent)
		slot->rescue_cursor = last;
	return 0;
}

/* Moves the task with thread id @pid to the local DSQ of @cpu. Returns whether it did. */
static __noinline bool rescue_task(s32 cpu, u32 pid, enum drfq_ahead cause)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	bool moved;

	if (!p)
		return false;
	moved = ahead_take(cpu, p, cause);
	if (moved)
		count(DRFQ_EV_RESCUED);
	bpf_task_release(p);
	return moved;
}

/* Returns the thread id of the task that the budget of @slot, the CPU's, allows to rescue
 * now; 0: none. */
static __always_inline u32 rescue_choose(struct drfq_cpu *slot, s32 cpu)
{
	u64 until = slot->rescue_until_ns, now = scx_bpf_now();
	u32 pid = 0;

	if (!drfq_budget_left(until, now, 0))
		return 0;
	if (slot->longest_turn)
		pid = rescue_find(cpu, starved_jiffies, false);
	slot->longest_turn = 0;
	if (pid)
		return pid;
	pid = rescue_find(cpu, urgent_jiffies, true);
	slot->longest_turn = pid != 0;
	if (!pid && drfq_budget_left(until, now, RESCUE_RESERVE_NS))
		pid = rescue_find(cpu, starved_jiffies, false);
	return pid;
}

/* Called by ops.dispatch of @cpu: takes a task that waited for too long, if there is one
 * and the budget allows it. Returns whether it did. */
static bool rescue(s32 cpu)
{
	u64 wait;
	u32 pid;

	if (!READ_ONCE(rescue_jiffies))
		return false;
	wait = longest_wait(cpu);
	if (wait < rescue_jiffies)
		return false;
	pid = rescue_choose(cpu_slot(cpu), cpu);
	if (pid && rescue_task(cpu, pid, DRFQ_AHEAD_RESCUED))
		return true;
	if (!always_jiffies || wait < always_jiffies)
		return false;
	pid = rescue_find(cpu, always_jiffies, false);
	return pid && rescue_task(cpu, pid, DRFQ_AHEAD_WITHOUT_BUDGET);
}

#endif /* DRFQ_RESCUE_BPF_H */
