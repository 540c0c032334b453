/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that run ahead of the order of S: those of starved tasks (rescue.bpf.h), and
 * those of the agent. They are charged as usual, and their time is also taken from a
 * budget of 1/DRFQ_BUDGET_PART of a CPU.
 *
 * The agent needs little time, but beside tasks of high weight it would answer its
 * clients late. Its threads are known by their thread group.
 */
#ifndef DRFQ_AHEAD_BPF_H
#define DRFQ_AHEAD_BPF_H

/* Thread group of the agent; 0: not known yet. */
u32 agent_tgid;

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
	return agent_tgid && (u32)p->tgid == agent_tgid &&
	       drfq_budget_left(agent_until_ns, scx_bpf_now(), 0);
}

/* The agent calls this once it is attached. It knows its number only in its own
 * namespace of processes. */
SEC("syscall")
int drfq_register_agent(void *ctx)
{
	agent_tgid = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

#endif /* DRFQ_AHEAD_BPF_H */
