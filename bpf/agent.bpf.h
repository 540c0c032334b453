/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the agent sets of tasks and groups: weights by its rules instead of nice values and
 * cpu.weight, paces, and ids in a memory controller. The agent looks again and again, so it
 * also finds what has changed since.
 */
#ifndef DRFQ_AGENT_BPF_H
#define DRFQ_AGENT_BPF_H

/* Returns the account of @p, which may be NULL; NULL: the scheduler has none. It lasts as long as
 * the caller's reference to @p. */
static __always_inline struct task_ctx *agent_account(struct task_struct *p)
{
	return p ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;
}

/* Ends the reference to @p. Returns 0, or an error if it has no account @t. */
static __always_inline int agent_done(struct task_struct *p, const struct task_ctx *t)
{
	if (p)
		bpf_task_release(p);
	return t ? 0 : -ESRCH;
}

/*
 * Gives a task a weight. The task's sums must change under the lock of its run queue,
 * which is not held here, so its next charge does that.
 */
SEC("syscall")
int drfq_set_task_weight(struct drfq_task_weight_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t = agent_account(p);

	if (t && t->rule_weight != arg->weight) {
		WRITE_ONCE(t->rule_weight, arg->weight);
		WRITE_ONCE(t->rule_changed, 1);
	}
	return agent_done(p, t);
}

/* Gives a task the hardware id that its labels carry from its next tick or packet on. */
SEC("syscall")
int drfq_set_hw_id(struct drfq_hw_id_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t = agent_account(p);

	if (t) {
		WRITE_ONCE(t->hw_id, arg->hw_id);
		/* What is there is of another task. */
		label_devices(t);
	}
	return agent_done(p, t);
}

/* Puts a task into a group that may have a pace. */
SEC("syscall")
int drfq_set_pace_group(struct drfq_pace_group_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t = agent_account(p);

	if (t)
		WRITE_ONCE(t->pace, arg->index);
	return agent_done(p, t);
}

/* Sets the pace of a group. Tasks that need not wait any more are released at once. */
SEC("syscall")
int drfq_set_pace(struct drfq_pace_arg *arg)
{
	struct drfq_pace *pace = pace_at(arg->index);

	if (!pace || arg->index >= DRFQ_PACES)
		return -EINVAL;
	if (pace_set(pace, arg->ns_per_byte_q32))
		timer_hurry();
	return 0;
}

/* Updates paid_bytes of all groups. */
SEC("syscall")
int drfq_read_paces(void *unused)
{
	paces_read();
	return 0;
}

/* Gives a cgroup a weight. */
SEC("syscall")
int drfq_set_cgroup_weight(struct drfq_cgroup_weight_arg *arg)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(arg->id);

	if (!cgrp)
		return -ESRCH;
	cgroup_change_weight(cgrp, arg->weight);
	bpf_cgroup_release(cgrp);
	return 0;
}

#endif /* DRFQ_AGENT_BPF_H */
