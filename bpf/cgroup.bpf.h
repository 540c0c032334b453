/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.weight of cgroups, without a hierarchy of queues. Each task is charged at its
 * effective weight
 *
 *	w(task) x  product over its cgroups g, from leaf to top, of  w(g) / active(g)
 *
 * where active(g) is the sum of the weights of g's active tasks and active child
 * groups. Active tasks are runnable or running. However many they are, they share
 * their group's weight. Tasks of the root group keep their own weight.
 *
 * A wake-up or a block changes active(g) of the task's group. The parent's sum
 * changes only when a group gets its first active member or loses its last one.
 * A task that is alone in its group changes the parent's sum only, where it stands
 * for its group: else each of its wake-ups and blocks would change both.
 * Every charge walks up the levels of the task's group; the root group has none.
 */
#ifndef DRFQ_CGROUP_BPF_H
#define DRFQ_CGROUP_BPF_H

#define CGROUP_NODES 4096
#define CGROUP_LEVELS 16
#define CGROUP_WEIGHT_DFL 100

struct cgroup_node {
	u32 weight; /* DRFQ_WEIGHT_ONE is cpu.weight 100 */
	u32 counted; /* this group's part of the parent's active */
	u32 parent; /* the parent's index; 0 is the root group */
	u32 used; /* not 0: a cgroup owns this node */
	u32 tasks; /* tasks of this scheduler in this group, without child groups */
	u32 alone; /* weight of the active task that counts in the parent in the group's stead */
	s64 active; /* sum of the other active members' weights */
} OWN_LINE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CGROUP_NODES);
	__type(key, u32);
	__type(value, struct cgroup_node);
} cgroup_nodes SEC(".maps");

/* The index of each cgroup's node. */
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

/* How often a group's part of its parent is computed again at most: far more often than CPUs
 * change it between two looks. */
#define CGROUP_PART_TRIES 32

/*
 * Brings @node's part of its parent up to date. Returns by how much this call changed it
 * (1/DRFQ_WEIGHT_ONE), which the caller adds to the parent's sum. Others may do so at the
 * same time. Who changes the sum or the weight does so by an atomic operation that is a
 * full barrier, and looks at the part after that. So the last one to change it sees all
 * changes, or whoever exchanges the part later looks again and sees them.
 */
static __always_inline s64 cgroup_count_part(struct cgroup_node *node)
{
	s64 delta = 0;
	u32 try, part;

	bpf_for(try, 0, CGROUP_PART_TRIES) {
		part = READ_ONCE(node->active) > 0 ? READ_ONCE(node->weight) : 0;
		if (part == READ_ONCE(node->counted))
			break;
		delta += (s64)part - __sync_lock_test_and_set(&node->counted, part);
	}
	return delta;
}

/*
 * Adds @delta (1/DRFQ_WEIGHT_ONE) to the active weight of group @index, and updates
 * its ancestors. That changes a group's part of its parent only where the group's sum
 * becomes or ceases to be positive.
 */
__noinline int cgroup_add_active(u32 index, s64 delta)
{
	u32 level;

	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		s64 before;

		if (!index || !node || !delta)
			break;
		index = node->parent;
		before = __sync_fetch_and_add(&node->active, delta);
		if (before > 0 && before + delta > 0)
			break;
		delta = cgroup_count_part(node);
	}
	return 0;
}

/* A task joins group @index (@change: 1) or leaves it (-1). */
static __always_inline void cgroup_add_tasks(u32 index, s32 change)
{
	struct cgroup_node *node = cgroup_node_at(index);

	if (index && node)
		__sync_fetch_and_add(&node->tasks, change);
}

/* Returns what counts of an active task with weight @weight in group @index: the node in whose
 * sum, and how much in the low half. It is another node if the task counts in its group's stead. */
static __always_inline u64 cgroup_counts(u32 index, u32 weight)
{
	struct cgroup_node *node = cgroup_node_at(index);

	if (node && READ_ONCE(node->tasks) == 1 && READ_ONCE(node->active) <= 0)
		return (u64)node->parent << 32 | READ_ONCE(node->weight);
	return (u64)index << 32 | weight;
}

/* A task with weight @weight counts in the stead of group @index from now on; 0: it no longer
 * does. The weight is for the members that join it before it notices. */
static __always_inline void cgroup_set_alone(u32 index, u32 weight)
{
	struct cgroup_node *node = cgroup_node_at(index);

	if (node)
		WRITE_ONCE(node->alone, weight);
}

/*
 * Returns the effective weight of a task with weight @weight in group @index. @counts: what counts
 * of the group in its parent, where the task does so in its stead; else 0. The group's weight may
 * have changed since.
 */
__noinline u32 cgroup_effective_weight(u32 index, u32 weight, u32 counts)
{
	u64 effective = weight;
	u32 level;

	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		s64 active;

		if (!index || !node)
			break;
		active = node->active + node->alone;
		/* active may not include this task yet. */
		if (active < weight)
			active = weight;
		weight = counts ?: node->weight;
		effective = effective * weight / active;
		counts = 0;
		index = node->parent;
	}
	return effective < DRFQ_WEIGHT_MIN ? DRFQ_WEIGHT_MIN : effective;
}

/* Returns the node index of @cgrp; 0, the root group's, if it has no node. */
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

/* Returns whether node @index belongs to @cgrp alone. A merged group uses the node of
 * its parent, and the root group has none. */
static bool cgroup_owns_node(struct cgroup *cgrp, u32 index)
{
	return index && index != cgroup_parent_index(cgrp);
}

/* Converts cpu.weight (1 to 10000) to 1/DRFQ_WEIGHT_ONE. */
static u32 cgroup_scale(u32 cpu_weight)
{
	return (u64)cpu_weight * DRFQ_WEIGHT_ONE / CGROUP_WEIGHT_DFL;
}

/* Changes the weight of @cgrp (1/DRFQ_WEIGHT_ONE), and what counts of it above. Where a task
 * counts in its stead, it follows at its next wake-up, enqueue or tick. */
static void cgroup_change_weight(struct cgroup *cgrp, u32 weight)
{
	u32 index = cgroup_index_of(cgrp);
	struct cgroup_node *node = cgroup_node_at(index);

	if (!node || !cgroup_owns_node(cgrp, index))
		return;
	/* Not a store: it would not be ordered before the look at the sum. */
	__sync_lock_test_and_set(&node->weight, weight);
	cgroup_add_active(node->parent, cgroup_count_part(node));
}

#endif /* DRFQ_CGROUP_BPF_H */
