/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that run ahead of the order of S: those of starved tasks (rescue.bpf.h), of the
 * agent, and of tasks that end. They are charged as usual. What starved tasks and the agent
 * use is also taken from a budget of 1/DRFQ_BUDGET_PART of a CPU.
 *
 * The agent needs little time, but beside tasks of high weight it would answer its
 * clients late. Its threads are known by their thread groups: one serves statistics, and
 * the other has the rest. A thread that finds the budget used up waits in its queue, until
 * a CPU that dispatches finds that some is left.
 */
#ifndef DRFQ_AHEAD_BPF_H
#define DRFQ_AHEAD_BPF_H

extern struct task_struct *bpf_task_from_vpid(s32 vpid) __ksym;

/* Thread groups of the agent; 0: not known. Idle tasks alone have 0, and are never queued. */
struct {
	u32 main;
	u32 stats;
} agent_tgids;

/* How many threads of the agent that wait for the budget, or for a CPU, are known. It has
 * five, and one for each client. Others are rescued. */
#define AGENT_WAITS_MAX 8

/* These threads. pids: their ids; 0: a free place. mask: bit i is set if pids[i] waits. next:
 * the one to look at first. */
static struct {
	u32 mask;
	u32 next;
	u32 pids[AGENT_WAITS_MAX];
} OWN_LINE agent_waits;

/* Time until which the agent's budget is used up (scx_bpf_now(), ns). Two of its threads
 * may lose one update between them, so it may get a packet too many. */
static u64 agent_until_ns;

/* Gives the CPU of @slot to @p ahead of the order of S. */
static __always_inline void ahead_begin(struct drfq_cpu *slot, const struct task_struct *p,
					enum drfq_ahead cause)
{
	slot->ahead_pid = p->pid;
	slot->ahead_cause = cause;
	slot->ahead_exec_ns = p->se.sum_exec_runtime;
}

static __always_inline bool runs_ahead(const struct drfq_cpu *slot, const struct task_struct *p)
{
	return slot->ahead_pid == (u32)p->pid;
}

/* The packet of @p on the CPU of @slot, which ran ahead, ends: pays for it. */
static __noinline void ahead_pay(struct drfq_cpu *slot, const struct task_struct *p)
{
	u64 used_ns = p->se.sum_exec_runtime - slot->ahead_exec_ns;

	slot->ahead_pid = 0;
	if (slot->ahead_cause == DRFQ_AHEAD_AGENT) {
		count_many(DRFQ_EV_AGENT_AHEAD_NS, used_ns);
		agent_until_ns = drfq_budget_spend(agent_until_ns, scx_bpf_now(), used_ns);
		return;
	}
	count_many(DRFQ_EV_RESCUED_NS, used_ns);
	if (slot->ahead_cause == DRFQ_AHEAD_RESCUED)
		slot->rescue_until_ns =
			drfq_budget_spend(slot->rescue_until_ns, scx_bpf_now(), used_ns);
}

/* The packet of @p on the CPU of @slot ends: pays for it if it ran ahead. */
static __always_inline void ahead_end(struct drfq_cpu *slot, const struct task_struct *p)
{
	if (runs_ahead(slot, p))
		ahead_pay(slot, p);
}

/*
 * Returns whether @p has ended but for its last switch. Its parent may have reaped it: then
 * no thread id finds it, so it could not be rescued from a queue.
 */
static __always_inline bool task_leaves(const struct task_struct *p)
{
	return (p->flags & PF_EXITING) && p->exit_state;
}

/*
 * Returns whether @p is a woken per-CPU kernel thread, which is dispatched directly
 * because other tasks wait for it. One whose S is more than K after the V of its CPU is
 * queued, so that a busy kernel thread cannot occupy its CPU for ever.
 */
static __always_inline bool goes_to_local_dsq(struct task_struct *p, struct task_ctx *t)
{
	return task_is_kthread(p) && task_is_pinned(p) && (t->flags & DRFQ_TASK_WOKEN) &&
	       !drfq_before(vtime_local(scx_bpf_task_cpu(p)) + conf.hold_ns, drfq_start(&t->flow));
}

/* Returns whether @p is a thread of the agent. */
static __always_inline bool task_is_agent(const struct task_struct *p)
{
	u32 tgid = (u32)p->tgid;

	return tgid == agent_tgids.main || tgid == agent_tgids.stats;
}

static __always_inline bool agent_budget_left(void)
{
	return drfq_budget_left(agent_until_ns, scx_bpf_now(), 0);
}

/*
 * Returns whether @p, a thread of the agent that is queued, goes ahead on its CPU. Where a
 * higher class has that CPU, or a packet that runs ahead, any CPU that dispatches takes it.
 */
static __always_inline bool agent_goes_ahead(const struct task_struct *p)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(p));

	if (slot->ahead_pid && !runs_ahead(slot, p))
		return false;
	return !READ_ONCE(slot->taken) && agent_budget_left();
}

/* Thread @pid of the agent waits for the budget, or for a CPU. */
static __noinline void agent_wait_begin(u32 pid)
{
	u32 i;

	bpf_for(i, 0, AGENT_WAITS_MAX) {
		u32 had = __sync_val_compare_and_swap(&agent_waits.pids[i], 0, pid);

		if (had && had != pid)
			continue;
		__sync_fetch_and_or(&agent_waits.mask, 1U << i);
		return;
	}
}

/* The slow path of agent_wait_end(). */
static __noinline void agent_wait_forget(u32 pid)
{
	u32 i;

	bpf_for(i, 0, AGENT_WAITS_MAX) {
		if (READ_ONCE(agent_waits.pids[i]) != pid)
			continue;
		/* In this order: a free place is not marked. */
		__sync_fetch_and_and(&agent_waits.mask, ~(1U << i));
		WRITE_ONCE(agent_waits.pids[i], 0);
	}
}

/* Thread @pid runs, or is gone: it waits no longer. */
static __always_inline void agent_wait_end(u32 pid)
{
	/* As a rule none waits. */
	if (READ_ONCE(agent_waits.mask))
		agent_wait_forget(pid);
}

/* Moves @p, if it waits and may run on @cpu, to the local DSQ of @cpu. Returns whether it
 * did. */
static __noinline bool ahead_take(s32 cpu, struct task_struct *p, enum drfq_ahead cause)
{
	struct task_struct *first;
	bool moved = false;

	bpf_for_each(scx_dsq, first, waiting_dsq(p), 0) {
		/* Only now: a task that is queued after the iterator was made is not moved. */
		if (!queue_task_stays(p, cpu))
			moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	if (moved)
		ahead_begin(cpu_slot(cpu), p, cause);
	return moved;
}

/* Takes thread @pid of the agent, if it waits. Returns whether it did. */
static __noinline bool agent_take_thread(s32 cpu, u32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	bool taken = false;

	if (p && (p->scx.flags & SCX_TASK_QUEUED))
		taken = ahead_take(cpu, p, DRFQ_AHEAD_AGENT);
	else
		agent_wait_end(pid);
	if (p)
		bpf_task_release(p);
	if (taken)
		count(DRFQ_EV_AGENT_AHEAD);
	return taken;
}

/* The slow path of agent_take(). */
static __noinline bool agent_take_waiting(s32 cpu)
{
	u32 i;

	bpf_for(i, 0, AGENT_WAITS_MAX) {
		u32 at = (READ_ONCE(agent_waits.next) + i) % AGENT_WAITS_MAX;

		if (!(READ_ONCE(agent_waits.mask) & 1U << at))
			continue;
		if (agent_take_thread(cpu, READ_ONCE(agent_waits.pids[at]))) {
			WRITE_ONCE(agent_waits.next, at + 1);
			return true;
		}
	}
	return false;
}

/* Called by ops.dispatch of @cpu: takes a thread of the agent that waits, if the budget has
 * some left again. Returns whether it did. */
static __always_inline bool agent_take(s32 cpu)
{
	return READ_ONCE(agent_waits.mask) && agent_budget_left() && agent_take_waiting(cpu);
}

/* The agent calls this once it is attached, and when the process that serves statistics has
 * ended. It knows numbers only in its own namespace of processes. */
SEC("syscall")
int drfq_register_agent(struct drfq_agent_arg *arg)
{
	struct task_struct *stats = bpf_task_from_vpid(arg->stats_pid);

	agent_tgids.main = bpf_get_current_pid_tgid() >> 32;
	agent_tgids.stats = stats ? stats->tgid : 0;
	if (stats)
		bpf_task_release(stats);
	return 0;
}

/*
 * The task that starts on @cpu is far behind one that waits, or may wait. CPUs tick together, so
 * a task of low weight could run again and again while two others exchange. It gives its CPU back
 * at once, and goes on if it is the first one then. The earlier task may also be one that only the
 * kernel finds, so this happens twice a slice at most.
 */
static void give_back(struct drfq_cpu *slot, s32 cpu)
{
	u64 now = scx_bpf_now();

	if (now - slot->gave_back_at_ns < slice_ns / 2)
		return;
	slot->gave_back_at_ns = now;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Returns S of a packet that may have been taken out of order, and stores in *@published
 * what V may advance to. If the queue's head is earlier, V must not pass the head. A
 * packet is out of order if it runs ahead of its turn. It also is because a task is on
 * no queue between ops.dispatch, which takes its successor, and ops.enqueue, which
 * queues it again.
 */
static __noinline u64 start_out_of_order(struct task_struct *p, s32 cpu, u64 start, u64 *published)
{
	bool exchanged = READ_ONCE(*exchanges_of(cpu)), earlier;
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct queue_pick head = {};

	/* What waits is in no queue, and may be earlier. */
	if (vtime_stands_still()) {
		*published = drfq_earlier(start, vtime_now());
		return start;
	}
	queue_choose_own(cpu, &head);
	queue_count_far(&head);
	earlier = head.dsq && drfq_before(head.start, start);
	/* Another CPU may have begun or ended an exchange during the look. */
	exchanged = !earlier && (exchanged || READ_ONCE(*exchanges_of(cpu)));
	if (!earlier && !exchanged) {
		start = task_start_packet(p, start, head.dsq != 0, start);
		*published = start;
		return start;
	}
	*published = earlier ? head.start : drfq_earlier(start, vtime_now());
	if (drfq_before(*published + conf.cap_ns, start) && !runs_ahead(slot, p))
		give_back(slot, cpu);
	return start;
}

/*
 * Returns S of the next packet of @p, which continues on its CPU, with @slot, and stores in
 * *@published what V may advance to. @contended: a task waits for this CPU, and the first
 * one has S = @head (ns). The new S is at most C before V, or before @head if that is
 * earlier. So a task whose weight is worth more than one CPU saves up at most C. @head is
 * earlier than V if V had to advance past it.
 */
static __always_inline u64 start_of_continued(struct drfq_cpu *slot, struct task_struct *p,
					      bool contended, u64 head, u64 *published)
{
	u64 v = vtime_now(), start = slot->charged_vtime_ns;
	s32 cpu = scx_bpf_task_cpu(p);
	/* What another CPU exchanges waits in no queue, and may be earlier, or as far behind V. */
	bool exchanged = !contended && READ_ONCE(*exchanges_of(cpu));

	if (exchanged && drfq_before(v + conf.cap_ns, start)) {
		*published = v;
		give_back(slot, cpu);
		return start;
	}
	if (contended)
		v = drfq_earlier(v, head);
	start = task_start_packet(p, start, contended, exchanged ? start : v);
	*published = start;
	return start;
}

#endif /* DRFQ_AHEAD_BPF_H */
