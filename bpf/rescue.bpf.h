/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starved tasks. Fair queueing starves no task, but may serve a low weight among high
 * ones, or one of many tasks, less than once in 30 s. Then the kernel's watchdog ends
 * the scheduler. So a CPU that dispatches may take one of these before the order of S:
 *   - an urgent task (urgent.bpf.h) that waited for RESCUE_URGENT_NS.
 *   - any task that waited for rescue_ns.
 *
 * The packet is charged as usual. All such packets of a CPU have a budget of
 * 1/DRFQ_BUDGET_PART of its time, and half of what it saves up is for urgent tasks. They
 * may be many, and each waits again at once, so every second rescue takes the task that
 * waits longest. Kernel threads are also taken on credit, of a second's budget at most: later
 * rescues wait until the budget has made up for it. So at most about that part of a CPU departs
 * from the weights, unless a task waits for too long. Then it is taken without a budget, after
 * what the budget allows: any task after RESCUE_ALWAYS_NS, before the watchdog acts, and a reader
 * of RCU after RESCUE_READER_NS, before RCU reports a stall. The kernel ends the scheduler for
 * either.
 *
 * A rescued task that is in a read section of RCU when its packet ends goes on, for
 * RESCUE_SECTION_NS at most. A section that copies a huge page takes many packets, and the
 * task would wait after each of them. Without a budget it would wait RESCUE_READER_NS, and
 * RCU would report a stall after the fourth packet. There it goes on as long as no other task
 * has waited for RESCUE_LATE_NS.
 *
 * Where a host stops the virtual CPUs, a section may take hundreds of ms. RCU counts the time
 * since it began, however often its task ran. So a task that is in its section after
 * RESCUE_SECTION_NS is known to its CPU. After RESCUE_READER_NS more it gets 1/RESCUE_LONG_PART
 * of that CPU, until RESCUE_LONG_NS. A CPU knows one such task at a time. A task that is mostly
 * in short sections may be taken for one.
 *
 * The kernel keeps the tasks that wait on a CPU's run queue in a list, in the order in
 * which they began to wait; a change of nice or affinity alone puts a task at its end.
 * ops.dispatch holds the lock of that list. So the task that waits longest is found without
 * a search, unless throttled ones are before it. Urgent tasks may be anywhere. While
 * there are any, each dispatch looks at some and goes on from there at the next one. The search
 * for kernel threads examines each task once, when it has waited for RESCUE_URGENT_NS. The search
 * for the others starts again at the first task. If it has met none that waited for long it rests,
 * for most urgent tasks soon get their turn.
 */
#ifndef DRFQ_RESCUE_BPF_H
#define DRFQ_RESCUE_BPF_H

/* How long an urgent task waits before it may be rescued (wall clock, ns). The time of a
 * hold counts. So a hold and the wait that follows it last half a second, with a margin. */
#define RESCUE_URGENT_NS 400000000ULL

/* Longer waits are counted, and end the overdraft of readers (wall clock, ns). */
#define RESCUE_LATE_NS 10000000000ULL

/* How long any task waits before it is rescued without a budget (wall clock, ns): half of
 * what the watchdog allows. */
#define RESCUE_ALWAYS_NS 15000000000ULL

/* How long a task that was preempted in a read section of RCU waits before it is rescued
 * without a budget (wall clock, ns). RCU reports a stall after 21 s by default, in which
 * such a task may be preempted again. */
#define RESCUE_READER_NS 5000000000ULL

/* How long a rescued task may go on in a read section (CPU time, ns): a little less than a
 * budget saves up, so that the next rescue is due within a second. */
#define RESCUE_SECTION_NS 40000000ULL

/* Until when a long read section is rescued without a budget (wall clock since it was known,
 * ns), and its part of a CPU then. RCU has reported a stall by then, or waits for longer. */
#define RESCUE_LONG_NS 25000000000ULL
#define RESCUE_LONG_PART 8

/* When a CPU takes the task of the last long section for one in a new one (wall clock, ns). */
#define RESCUE_AGAIN_NS 60000000000ULL

/* How many overdue tasks are rescued for each overdue reader of RCU. */
#define RESCUE_TURNS 3

/* How many kernel threads are rescued on credit for each task that waits longest. */
#define RESCUE_ON_CREDIT 4

/* What a budget must have left for a task that is not urgent (wall clock, ns). */
#define RESCUE_RESERVE_NS (DRFQ_BUDGET_WINDOW_NS / 2)

/* How many waiting tasks a dispatch examines at most. */
#define RESCUE_STEPS 64

/* A search for other urgent tasks than kernel threads rests for this part of RESCUE_URGENT_NS. */
#define RESCUE_REST_PART 8

extern struct rq runqueues __ksym;

/* Whom a search looks for. Others: urgent tasks that are no kernel threads, or that read RCU. */
enum rescue_whom {
	RESCUE_ANY,
	RESCUE_KTHREAD,
	RESCUE_OTHER,
	RESCUE_READER,
};

/* RESCUE_URGENT_NS, rescue_ns, the smaller of both, RESCUE_LATE_NS, RESCUE_ALWAYS_NS,
 * RESCUE_READER_NS, RESCUE_LONG_PART * RESCUE_SECTION_NS, RESCUE_LONG_NS, RESCUE_AGAIN_NS and
 * hold_max_ns in jiffies; 0 until the timer has measured the length of a jiffy. */
static u64 urgent_jiffies, starved_jiffies, rescue_jiffies, late_jiffies, always_jiffies,
	reader_jiffies, rest_jiffies, long_jiffies, again_jiffies, hold_jiffies;

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
	/* Options may be shorter than a jiffy; 0 would mean that it is not known. */
	starved_jiffies = (rescue_ns + jiffy_ns - 1) / jiffy_ns;
	late_jiffies = RESCUE_LATE_NS / jiffy_ns;
	always_jiffies = RESCUE_ALWAYS_NS / jiffy_ns;
	reader_jiffies = RESCUE_READER_NS / jiffy_ns;
	rest_jiffies = RESCUE_LONG_PART * RESCUE_SECTION_NS / jiffy_ns;
	long_jiffies = RESCUE_LONG_NS / jiffy_ns;
	again_jiffies = RESCUE_AGAIN_NS / jiffy_ns;
	hold_jiffies = (hold_max_ns + jiffy_ns - 1) / jiffy_ns;
	WRITE_ONCE(rescue_jiffies,
		   urgent_jiffies < starved_jiffies ? urgent_jiffies : starved_jiffies);
}

/* Returns whether @p has waited for a CPU for more than @jiffies; 0: that is not known. */
static __always_inline bool waits_since(const struct task_struct *p, u64 jiffies)
{
	return jiffies && bpf_jiffies64() - p->scx.runnable_at > jiffies;
}

/* Returns whether @p has waited for a CPU for too long. */
static __always_inline bool waits_late(const struct task_struct *p)
{
	return waits_since(p, late_jiffies);
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

static __always_inline bool rescue_wants(const struct task_struct *p, enum rescue_whom whom)
{
	switch (whom) {
	case RESCUE_ANY:
		return true;
	case RESCUE_KTHREAD:
		return task_is_kthread(p);
	case RESCUE_OTHER:
		return was_released(p) || task_reads_rcu(p);
	case RESCUE_READER:
		break;
	}
	return task_reads_rcu(p);
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
 * Returns the place after the task of @cursor in the list of @cpu, where a search for @whom
 * goes on; NULL if the task is not in it, has run since, or is wanted by now.
 */
static __always_inline struct list_head *place_after(const struct drfq_cursor *cursor, s32 cpu,
						     enum rescue_whom whom)
{
	struct task_struct *p = bpf_task_from_pid(cursor->pid);
	struct list_head *next = NULL;

	if (!p)
		return NULL;
	if (scx_bpf_task_cpu(p) == cpu && (p->scx.flags & SCX_TASK_QUEUED) &&
	    p->scx.runnable_at == cursor->since &&
	    p->scx.runnable_node.next != &p->scx.runnable_node &&
	    !(whom == RESCUE_ANY && waiting_dsq(p)))
		next = p->scx.runnable_node.next;
	bpf_task_release(p);
	return next;
}

/*
 * Returns the thread id of the first task of @whom that has waited on the run queue of @cpu
 * for @least (jiffies); 0 if none was found. The search goes on at @cursor and moves it, or
 * starts at the first task if that is NULL. After the last task that has waited for @least, it
 * starts again at the first one. A search for kernel threads waits there for the next task to
 * come of age: it examines each task once, and finds a thread at once in any crowd.
 */
static __noinline u32 rescue_find(s32 cpu, u64 least, enum rescue_whom whom,
				  struct drfq_cursor *cursor)
{
	u64 jiffies = bpf_jiffies64();
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct drfq_cursor last = {};
	struct list_head *node = NULL;
	u32 i;

	if (!rq || (whom != RESCUE_ANY && !READ_ONCE(cpu_slot(cpu)->urgent_waiting)))
		return 0;
	if (cursor && cursor->pid)
		node = place_after(cursor, cpu, whom);
	if (node)
		last = *cursor;
	else
		node = rq->scx.runnable_list.next;
	bpf_for(i, 0, RESCUE_STEPS) {
		struct task_struct *p = waiting_task(node);

		if (node == &rq->scx.runnable_list || jiffies - p->scx.runnable_at < least) {
			if (whom != RESCUE_KTHREAD)
				last.pid = 0;
			break;
		}
		if (waiting_dsq(p) && rescue_wants(p, whom))
			return p->pid;
		last.pid = p->pid;
		last.since = p->scx.runnable_at;
		node = p->scx.runnable_node.next;
	}
	if (cursor)
		*cursor = last;
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

/* Returns whether thread @pid is in a read section of RCU. */
static __noinline bool thread_reads_rcu(u32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	bool reads;

	if (!p)
		return false;
	reads = task_reads_rcu(p);
	bpf_task_release(p);
	return reads;
}

/* The rescued task @prev did not leave its read section in RESCUE_SECTION_NS on the CPU of
 * @slot: notes that, unless the CPU knows another such task. */
static __always_inline void section_begin(struct drfq_cpu *slot, const struct task_struct *prev)
{
	u64 now = bpf_jiffies64(), since = now - slot->section_since;
	u32 known = slot->section_pid;

	if (known == (u32)prev->pid) {
		if (since < again_jiffies)
			return;
	} else if (known && since < long_jiffies && thread_reads_rcu(known)) {
		return;
	}
	slot->section_pid = prev->pid;
	slot->section_since = now;
}

/* Returns the thread id of the task in a long read section that the CPU of @slot rescues now;
 * 0: none. */
static __always_inline u32 section_overdue(struct drfq_cpu *slot)
{
	u32 pid = slot->section_pid;
	u64 jiffies, since;

	/* As a rule none is known. */
	if (!pid || !reader_jiffies)
		return 0;
	jiffies = bpf_jiffies64();
	since = jiffies - slot->section_since;
	if (since < reader_jiffies || since >= long_jiffies ||
	    drfq_before(jiffies, slot->section_rest_until))
		return 0;
	slot->section_rest_until = jiffies + rest_jiffies;
	if (thread_reads_rcu(pid))
		return pid;
	slot->section_pid = 0;
	return 0;
}

/* Called by ops.dispatch of @cpu, of @slot: returns whether @prev, its running task, goes on,
 * and gives it another slice then. */
static __always_inline bool rescue_goes_on(struct drfq_cpu *slot, s32 cpu, struct task_struct *prev)
{
	bool is_long;

	if (!runs_ahead(slot, prev) || slot->ahead_cause == DRFQ_AHEAD_AGENT)
		return false;
	is_long = slot->section_pid == (u32)prev->pid;
	if (!task_reads_rcu(prev)) {
		if (is_long)
			slot->section_pid = 0;
		return false;
	}
	/* What others may lose here has no budget. */
	if (slot->ahead_cause == DRFQ_AHEAD_WITHOUT_BUDGET &&
	    rescue_find(cpu, is_long ? always_jiffies : late_jiffies, RESCUE_ANY, NULL))
		return false;
	/* A packet that a wake-up ends goes on, too. */
	if (prev->se.sum_exec_runtime - slot->ahead_exec_ns >= RESCUE_SECTION_NS) {
		section_begin(slot, prev);
		return false;
	}
	slot->preempt_pending = false;
	scx_bpf_task_set_slice(prev, slice_ns);
	return true;
}

/* Returns the thread id of a kernel thread that @cpu, of @slot, may rescue; 0: none is known. A
 * few tasks come of age in a jiffy. */
static __always_inline u32 rescue_find_kthread(struct drfq_cpu *slot, s32 cpu)
{
	u64 jiffies = bpf_jiffies64();

	if (slot->kthreads_seen_at == jiffies)
		return 0;
	slot->kthreads_seen_at = jiffies;
	return rescue_find(cpu, urgent_jiffies, RESCUE_KTHREAD, &slot->kthread_cursor);
}

/* Returns the thread id of an urgent task that @cpu, of @slot, may rescue; 0: none is known. */
static __always_inline u32 rescue_find_urgent(struct drfq_cpu *slot, s32 cpu)
{
	u64 jiffies = bpf_jiffies64();
	u32 pid = rescue_find_kthread(slot, cpu);

	if (pid || drfq_before(jiffies, slot->other_rest_until))
		return pid;
	pid = rescue_find(cpu, urgent_jiffies, RESCUE_OTHER, &slot->other_cursor);
	if (!pid && !slot->other_cursor.pid)
		slot->other_rest_until = jiffies + urgent_jiffies / RESCUE_REST_PART;
	return pid;
}

/*
 * Returns the thread id of the task that @cpu, of @slot, rescues on credit at @now while its
 * budget has none left; 0: none. One long read section uses up the budget of most of a second,
 * and others wait for a kernel thread.
 */
static __always_inline u32 rescue_on_credit(struct drfq_cpu *slot, s32 cpu, u64 now)
{
	u32 pid;

	if (!drfq_budget_left(slot->rescue_until_ns, now + DRFQ_BUDGET_WINDOW_NS, 0))
		return 0;
	if (slot->on_credit >= RESCUE_ON_CREDIT) {
		slot->on_credit = 0;
		return rescue_find(cpu, starved_jiffies, RESCUE_ANY, &slot->starved_cursor);
	}
	pid = rescue_find_kthread(slot, cpu);
	slot->on_credit += pid != 0;
	return pid;
}

/* Returns the thread id of the task that @cpu, of @slot, rescues now within its budget; 0: none. */
static __always_inline u32 rescue_choose(struct drfq_cpu *slot, s32 cpu)
{
	u64 until = slot->rescue_until_ns, now = scx_bpf_now();
	u32 pid = 0;

	if (!drfq_budget_left(until, now, 0))
		return rescue_on_credit(slot, cpu, now);
	if (slot->longest_turn)
		pid = rescue_find(cpu, starved_jiffies, RESCUE_ANY, &slot->starved_cursor);
	slot->longest_turn = 0;
	if (pid)
		return pid;
	pid = rescue_find_urgent(slot, cpu);
	slot->longest_turn = pid != 0;
	if (!pid && drfq_budget_left(until, now, RESCUE_RESERVE_NS))
		pid = rescue_find(cpu, starved_jiffies, RESCUE_ANY, &slot->starved_cursor);
	return pid;
}

/*
 * Returns the thread id of the task that @cpu, of @slot, rescues without a budget, after its
 * longest wait of @wait (jiffies); 0: none. After an overdue reader of RCU, RESCUE_TURNS go
 * to any overdue task.
 */
static __always_inline u32 rescue_overdue(struct drfq_cpu *slot, s32 cpu, u64 wait)
{
	bool any = always_jiffies && wait >= always_jiffies;
	u32 pid = 0;

	if (reader_jiffies && wait >= reader_jiffies && !(any && slot->overdue_turns))
		pid = rescue_find(cpu, reader_jiffies, RESCUE_READER, &slot->reader_cursor);
	if (pid)
		slot->overdue_turns = RESCUE_TURNS;
	else if (slot->overdue_turns)
		slot->overdue_turns--;
	if (!pid && any)
		pid = rescue_find(cpu, always_jiffies, RESCUE_ANY, NULL);
	return pid;
}

/* rescue(), where a task has waited for @wait jiffies, too long. A global function, like
 * those of flow.bpf.h. */
__noinline int rescue_waiting(s32 cpu, u64 wait)
{
	struct drfq_cpu *slot = cpu_slot(cpu);
	u32 pid = rescue_choose(slot, cpu);

	if (pid && rescue_task(cpu, pid, DRFQ_AHEAD_RESCUED))
		return true;
	/* The watchdog is nearer than a stall. */
	pid = wait < always_jiffies ? section_overdue(slot) : 0;
	if (pid && rescue_task(cpu, pid, DRFQ_AHEAD_WITHOUT_BUDGET))
		return true;
	pid = rescue_overdue(slot, cpu, wait);
	return pid && rescue_task(cpu, pid, DRFQ_AHEAD_WITHOUT_BUDGET);
}

/* Called by ops.dispatch of @cpu, of @slot: takes a task that waited for too long, if there is
 * one and the budget allows it, or if it is overdue. Returns whether it did. */
static __always_inline bool rescue(struct drfq_cpu *slot, s32 cpu)
{
	u64 wait;

	if (!READ_ONCE(rescue_jiffies))
		return false;
	wait = longest_wait(cpu);
	if (wait < rescue_jiffies)
		return false;
	/* In a crowd, most waits are of tasks that are not urgent, and not for too long. */
	if (wait < starved_jiffies && !READ_ONCE(slot->urgent_waiting) && !slot->section_pid)
		return false;
	return rescue_waiting(cpu, wait);
}

#endif /* DRFQ_RESCUE_BPF_H */
