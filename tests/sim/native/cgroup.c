/* SPDX-License-Identifier: GPL-2.0-only */
/* The cgroups of the cpu controller, as ops.cgroup_* report them. */
#include <stdlib.h>

#include "model.h"

/* The kernel's quota_us of a group without one. */
#define RUNTIME_INF (~0ULL)

static void load_group(struct machine *m, struct cgroup *cgrp)
{
	struct scx_cgroup_init_args args = {.weight = cgrp->weight,
					    .bw_period_us = cgrp->period_us,
					    .bw_quota_us = cgrp->quota_us};

	if (m->ops->cgroup_init(cgrp, &args))
		scx_bpf_error("ops.cgroup_init failed");
}

struct cgroup *machine_cgroup_new(struct machine *m, struct cgroup *parent, u32 weight)
{
	struct cgroup *cgrp = calloc(1, sizeof(*cgrp));

	machine_use(m, m->now_ns, 0);
	cgrp->parent = parent ? parent : &m->root_group;
	cgrp->level = cgrp->parent->level + 1;
	m->groups = realloc(m->groups, (m->nr_groups + 1) * sizeof(*m->groups));
	m->groups[m->nr_groups++] = cgrp;
	cgrp->weight = weight;
	cgrp->quota_us = RUNTIME_INF;
	load_group(m, cgrp);
	return cgrp;
}

void machine_cgroup_set_weight(struct machine *m, struct cgroup *cgrp, u32 weight)
{
	machine_use(m, m->now_ns, 0);
	cgrp->weight = weight;
	m->ops->cgroup_set_weight(cgrp, weight);
}

void machine_cgroup_set_quota(struct machine *m, struct cgroup *cgrp, u64 period_us, u64 quota_us)
{
	machine_use(m, m->now_ns, 0);
	cgrp->period_us = period_us;
	cgrp->quota_us = quota_us ? quota_us : RUNTIME_INF;
	m->ops->cgroup_set_bandwidth(cgrp, cgrp->period_us, cgrp->quota_us, 0);
}

void machine_cgroup_set_idle(struct machine *m, struct cgroup *cgrp, bool idle)
{
	machine_use(m, m->now_ns, 0);
	m->ops->cgroup_set_idle(cgrp, idle);
}

/* The id of a group is its address here. */
struct cgroup *bpf_cgroup_from_id(u64 id)
{
	return (struct cgroup *)id;
}

void machine_rule_cgroup(struct machine *m, struct cgroup *cgrp, u32 weight)
{
	machine_use(m, m->now_ns, 0);
	scheduler_rule_cgroup(cgrp, weight);
}

void machine_rule_task(struct machine *m, struct task_struct *p, u32 weight)
{
	machine_use(m, m->now_ns, 0);
	scheduler_rule_task(p, weight);
}

void machine_pace(struct machine *m, u32 index, u64 ns_per_byte_q32)
{
	machine_use(m, m->now_ns, 0);
	scheduler_pace(index, ns_per_byte_q32);
}

void machine_pace_group(struct machine *m, struct task_struct *p, u32 index)
{
	machine_use(m, m->now_ns, 0);
	scheduler_pace_group(p, index);
}

u64 machine_pace_paid(struct machine *m, u32 index)
{
	machine_use(m, m->now_ns, 0);
	return scheduler_pace_paid(index);
}

void cgroups_drop_storage(struct machine *m)
{
	for (u32 i = 0; i < m->nr_groups; i++) {
		free(m->groups[i]->storage);
		m->groups[i]->storage = NULL;
	}
}

void cgroups_load(struct machine *m)
{
	for (u32 i = 0; i < m->nr_groups; i++)
		load_group(m, m->groups[i]);
}

void cgroups_free(struct machine *m)
{
	cgroups_drop_storage(m);
	for (u32 i = 0; i < m->nr_groups; i++)
		free(m->groups[i]);
	free(m->groups);
}
