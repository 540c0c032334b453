/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights that the agent's rules give to tasks and cgroups, instead of nice values and
 * cpu.weight. The agent looks once a second, so it also finds what has changed since.
 */
#ifndef DRFQ_RULE_BPF_H
#define DRFQ_RULE_BPF_H

/*
 * Gives a task a weight. The task's sums must change under the lock of its run queue,
 * which is not held here, so its next charge does that.
 */
SEC("syscall")
int drfq_set_task_weight(struct drfq_task_weight_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t;

	if (!p)
		return -ESRCH;
	t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (t && t->rule_weight != arg->weight) {
		WRITE_ONCE(t->rule_weight, arg->weight);
		WRITE_ONCE(t->rule_changed, 1);
	}
	bpf_task_release(p);
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

#endif /* DRFQ_RULE_BPF_H */
