/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup cpu.weight. Queues stay flat: a task is charged at its effective weight
 *
 *	w(task) x  product over its cgroups g, leaf to top, of  w(g) / active(g)
 *
 * where active(g) is the sum of the weights of g's active tasks and active child
 * groups. So a group's active tasks share what the group is worth, however many
 * they are, and tasks of the root group keep their own weight.
 *
 * active(g) changes when a task wakes or blocks, and only then, and reaches the
 * parent only when a group gets its first active member or loses its last. A
 * charge walks up the levels; a task of the root group walks none.
 */
#ifndef DRFQ_CGROUP_BPF_H
#define DRFQ_CGROUP_BPF_H

#define CGROUP_NODES 4096
#define CGROUP_LEVELS 16
#define CGROUP_WEIGHT_DFL 100

struct cgroup_node {
	struct bpf_spin_lock lock; /* of counted and weight */
	u32 weight; /* DRFQ_WEIGHT_ONE is cpu.weight 100 */
	u32 counted; /* what the parent's active sum has for this group */
	u32 parent; /* index; 0 is the root group */
	u32 used;
	s64 active; /* weights of active members */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CGROUP_NODES);
	__type(key, u32);
	__type(value, struct cgroup_node);
} cgroup_nodes SEC(".maps");

/* Index of a cgroup's node. */
struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} cgroup_index SEC(".maps");

static __always_inline struct cgroup_node *cgroup_node_at(u32 index)
{
	return bpf_map_lookup_elem(&cgroup_nodes, &index);
}

/*
 * Adds @delta to the active weight of a group, and to its ancestors' what
 * follows from that. What the parent has counted is settled under the lock by
 * the state found there, so that opposite changes at once end right.
 */
__noinline int cgroup_add_active(u32 index, s64 delta)
{
	u32 level;

	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		u32 counted;

		if (!index || !node || !delta)
			break;
		__sync_fetch_and_add(&node->active, delta);
		bpf_spin_lock(&node->lock);
		counted = node->active > 0 ? node->weight : 0;
		delta = (s64)counted - node->counted;
		node->counted = counted;
		bpf_spin_unlock(&node->lock);
		index = node->parent;
	}
	return 0;
}

/* Effective weight of a task of weight @weight in group @index. */
__noinline u32 cgroup_effective_weight(u32 index, u32 weight)
{
	u64 effective = weight;
	u32 level;

	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		s64 active;

		if (!index || !node)
			break;
		active = node->active;
		/* The task itself may not be counted yet. */
		if (active < weight)
			active = weight;
		effective = effective * node->weight / active;
		weight = node->weight;
		index = node->parent;
	}
	return effective < DRFQ_WEIGHT_MIN ? DRFQ_WEIGHT_MIN : effective;
}

/* Index of the node of @cgrp; of none: the root group's. */
static u32 cgroup_index_of(struct cgroup *cgrp)
{
	u32 *index = bpf_cgrp_storage_get(&cgroup_index, cgrp, 0, 0);

	return index ? *index : 0;
}

static u32 cgroup_parent_index(struct cgroup *cgrp)
{
	struct cgroup *parent;
	u32 index;

	parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (!parent)
		return 0;
	index = cgroup_index_of(parent);
	bpf_cgroup_release(parent);
	return index;
}

static u32 cgroup_scale(u32 cpu_weight)
{
	return (u64)cpu_weight * DRFQ_WEIGHT_ONE / CGROUP_WEIGHT_DFL;
}

/* The kernel serialises the creation of groups. */
s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	u32 i, *index;

	if (!cgrp->level)
		return 0;
	index = bpf_cgrp_storage_get(&cgroup_index, cgrp, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!index)
		return -ENOMEM;
	bpf_for(i, 1, CGROUP_NODES) {
		struct cgroup_node *node = cgroup_node_at(i);

		if (!node || node->used)
			continue;
		node->used = true;
		node->weight = cgroup_scale(args->weight);
		node->counted = 0;
		node->active = 0;
		node->parent = cgroup_parent_index(cgrp);
		*index = i;
		return 0;
	}
	/* Too many groups: this one's tasks compete in its parent. */
	*index = cgroup_parent_index(cgrp);
	count(DRFQ_EV_CGROUPS_MERGED);
	return 0;
}

void BPF_STRUCT_OPS(drfq_cgroup_exit, struct cgroup *cgrp)
{
	u32 index = cgroup_index_of(cgrp);
	struct cgroup_node *node = cgroup_node_at(index);

	/* A merged group has its parent's node. */
	if (!index || !node || (cgrp->level && index == cgroup_parent_index(cgrp)))
		return;
	node->used = false;
}

void BPF_STRUCT_OPS(drfq_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u32 index = cgroup_index_of(cgrp), counted;
	struct cgroup_node *node = cgroup_node_at(index);
	s64 delta;

	if (!index || !node)
		return;
	bpf_spin_lock(&node->lock);
	node->weight = cgroup_scale(weight);
	counted = node->active > 0 ? node->weight : 0;
	delta = (s64)counted - node->counted;
	node->counted = counted;
	bpf_spin_unlock(&node->lock);
	cgroup_add_active(node->parent, delta);
}

#endif /* DRFQ_CGROUP_BPF_H */
