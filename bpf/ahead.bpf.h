/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that run ahead of the order of S: those of starved tasks (rescue.bpf.h), and
 * those of the agent. They are charged as usual, and their time is also taken from a
 * budget of 1/DRFQ_BUDGET_PART of a CPU.
 *
 * The agent needs little time, but beside tasks of high weight it would answer its
 * clients late. Its threads are known by their thread groups: one serves statistics, and
 * the other has the rest.
 */
#ifndef DRFQ_AHEAD_BPF_H
#define DRFQ_AHEAD_BPF_H

extern struct task_struct *bpf_task_from_vpid(s32 vpid) __ksym;

/* Thread groups of the agent; 0: not known. Idle tasks alone have 0, and are never queued. */
struct {
	u32 main;
	u32 stats;
} agent_tgids;

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

/* The packet of @p on the CPU of @slot ends: pays for it if it ran ahead. */
static void ahead_end(struct drfq_cpu *slot, const struct task_struct *p)
{
	u64 used_ns = p->se.sum_exec_runtime - slot->ahead_exec_ns;

	if (!runs_ahead(slot, p))
		return;
	slot->ahead_pid = 0;
	if (slot->ahead_cause == DRFQ_AHEAD_AGENT)
		agent_until_ns = drfq_budget_spend(agent_until_ns, scx_bpf_now(), used_ns);
	else
		slot->rescue_until_ns =
			drfq_budget_spend(slot->rescue_until_ns, scx_bpf_now(), used_ns);
}

/* Returns whether @p is a thread of the agent, and the agent's budget has some left. */
static __always_inline bool agent_goes_ahead(const struct task_struct *p)
{
	u32 tgid = (u32)p->tgid;

	return (tgid == agent_tgids.main || tgid == agent_tgids.stats) &&
	       drfq_budget_left(agent_until_ns, scx_bpf_now(), 0);
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

#endif /* DRFQ_AHEAD_BPF_H */
