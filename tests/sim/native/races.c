/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two threads change the groups of bpf/cgroup.bpf.h at the same time. The simulator itself
 * runs one callback after another.
 */
#include <pthread.h>
#include <sched.h>
#include <scx/common.bpf.h>

#include "drfq.h"
#include "machine.h"

/* Groups 1 to 3, each the parent of the next one. */
#define GROUPS 4

static struct cgroup groups[GROUPS];
static void *node_of(u32 index);
static u32 *index_of(struct cgroup *cgrp);
static struct cgroup *parent_of(struct cgroup *cgrp);

#undef bpf_map_lookup_elem
#undef bpf_cgrp_storage_get
#define bpf_map_lookup_elem(map, at) node_of(*(at))
#define bpf_cgrp_storage_get(map, cgrp, init, flags) index_of(cgrp)
#define bpf_cgroup_ancestor(cgrp, level) parent_of(cgrp)
#define bpf_cgroup_release(cgrp) ((void)(cgrp))
/* cpu.bpf.h defines it. */
#define OWN_LINE
/* The scheduler has these names. */
#define cgroup_nodes race_nodes
#define cgroup_index race_index
#define cgroup_add_active race_add_active
#define cgroup_effective_weight race_effective_weight
#pragma clang diagnostic ignored "-Wunused-function"
#include "cgroup.bpf.h"

static struct cgroup_node nodes[GROUPS];
static u32 indices[GROUPS];

static void *node_of(u32 index)
{
	return index < GROUPS ? &nodes[index] : NULL;
}

static u32 *index_of(struct cgroup *cgrp)
{
	return &indices[cgrp - groups];
}

static struct cgroup *parent_of(struct cgroup *cgrp)
{
	return cgrp - 1;
}

struct racer {
	u64 number;
	u64 random;
	u64 rounds;
	u64 done;
	u64 wrong; /* rounds after which a sum was wrong */
};

static struct racer racers[2];

/* One task becomes active and idle, once or twice; thread 1 also changes the weight. */
static void race_once(struct racer *r)
{
	s64 weight = 1 + (s64)r->number;
	u32 i;

	r->random = r->random * 6364136223846793005ULL + 1442695040888963407ULL;
	for (i = 0; i < r->random >> 58; i++)
		__asm__ volatile("");
	if (r->number && r->random >> 40 & 1)
		cgroup_change_weight(&groups[GROUPS - 1], 1 + (r->random >> 50));
	for (i = 0; i <= (r->random >> 37 & 1); i++) {
		cgroup_add_active(GROUPS - 1, weight);
		cgroup_add_active(GROUPS - 1, -weight);
	}
}

/* Returns whether a group's sum differs from its child's part, or that part from the rule. */
static bool sums_are_wrong(void)
{
	u32 i;

	for (i = 1; i < GROUPS; i++) {
		u32 part = nodes[i].active > 0 ? nodes[i].weight : 0;
		s64 below = i + 1 < GROUPS ? nodes[i + 1].counted : 0;

		if (nodes[i].counted != part || nodes[i].active != below)
			return true;
	}
	return false;
}

static void wait_for(const struct racer *r, u64 round)
{
	u32 looks;

	for (looks = 0; __atomic_load_n(&r->done, __ATOMIC_SEQ_CST) < round; looks++)
		if (looks > 1000)
			sched_yield();
}

/* Thread 0 looks at the sums after each round, while thread 1 waits for it. */
static void *race(void *argument)
{
	struct racer *r = argument, *other = &racers[!r->number];
	u64 round;

	for (round = 1; round <= r->rounds; round++) {
		race_once(r);
		if (!r->number) {
			wait_for(other, round);
			r->wrong += sums_are_wrong();
		}
		__atomic_store_n(&r->done, round, __ATOMIC_SEQ_CST);
		wait_for(other, round);
	}
	return NULL;
}

u64 race_groups(u64 rounds)
{
	pthread_t thread;
	u32 i;

	for (i = 0; i < GROUPS; i++) {
		groups[i].level = (s32)i;
		indices[i] = i;
		nodes[i] = (struct cgroup_node){.weight = 100 * i, .parent = i ? i - 1 : 0};
	}
	for (i = 0; i < 2; i++)
		racers[i] = (struct racer){.number = i, .random = i, .rounds = rounds};
	if (pthread_create(&thread, NULL, race, &racers[1]))
		return rounds;
	race(&racers[0]);
	pthread_join(thread, NULL);
	return racers[0].wrong;
}
