/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel tells of cgroups: cpu.weight, cpu.idle and cpu.max. A kernel may lack
 * some of these callbacks; then these limits have no effect.
 */
#ifndef DRFQ_CGROUP_OPS_BPF_H
#define DRFQ_CGROUP_OPS_BPF_H

/* The weight of a group with cpu.idle, like that of a task of SCHED_IDLE. */
#define CGROUP_WEIGHT_IDLE (3 * (DRFQ_WEIGHT_ONE / 1024))

/* Returns the weight of a new group (1/DRFQ_WEIGHT_ONE). */
static __always_inline u32 init_weight(const struct scx_cgroup_init_args *args)
{
	if (bpf_core_field_exists(args->sched_idle) && args->sched_idle)
		return CGROUP_WEIGHT_IDLE;
	return cgroup_scale(args->weight);
}

/* Takes a free node. The kernel serializes the creation of cgroups. */
s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	u32 i, *index, nodes = CGROUP_NODES;

	if (!cgrp->level)
		return 0;
	index = bpf_cgrp_storage_get(&cgroup_index, cgrp, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!index)
		return -ENOMEM;
	/* Sums and quotas are followed upwards for so many levels. */
	if (cgrp->level > CGROUP_LEVELS)
		nodes = 1;
	bpf_for(i, 1, nodes) {
		struct cgroup_node *node = cgroup_node_at(i);

		/* A task that ended may make its last switch after its group's end. What counted
		 * of it in the group goes first, then what counted of the group in the parent. */
		if (!node || node->used || READ_ONCE(node->tasks) || READ_ONCE(node->active) ||
		    READ_ONCE(node->counted))
			continue;
		node->used = true;
		node->alone = 0;
		node->weight = init_weight(args);
		node->parent = cgroup_parent_index(cgrp);
		quota_init(i);
		if (bpf_core_field_exists(args->bw_quota_us))
			quota_set(i, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
		*index = i;
		return 0;
	}
	/* Too deep, or the table is full: this group's tasks compete as the parent's. */
	*index = cgroup_parent_index(cgrp);
	count(DRFQ_EV_CGROUPS_MERGED);
	return 0;
}

void BPF_STRUCT_OPS(drfq_cgroup_exit, struct cgroup *cgrp)
{
	u32 *index = bpf_cgrp_storage_get(&cgroup_index, cgrp, 0, 0);
	struct cgroup_node *node = cgroup_node_at(index ? *index : 0);

	if (!index)
		return;
	if (node && cgroup_owns_node(cgrp, *index)) {
		quota_set(*index, 0, QUOTA_NONE, 0);
		node->used = false;
	}
	/* A group without the cpu controller lives on. */
	*index = 0;
}

void BPF_STRUCT_OPS(drfq_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	cgroup_change_weight(cgrp, cgroup_scale(weight));
}

/* Without cpu.idle, cpu.weight is 100 again. */
void BPF_STRUCT_OPS(drfq_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	cgroup_change_weight(cgrp, idle ? CGROUP_WEIGHT_IDLE : DRFQ_WEIGHT_ONE);
}

void BPF_STRUCT_OPS(drfq_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	u32 index = cgroup_index_of(cgrp);

	if (cgroup_owns_node(cgrp, index))
		quota_set(index, period_us, quota_us, burst_us);
}

#endif /* DRFQ_CGROUP_OPS_BPF_H */
