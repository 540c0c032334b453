/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max: what the tasks of a cgroup may use of the CPUs in each period. Every charge
 * takes time from the quotas of the task's groups. throttle.bpf.h makes tasks wait.
 *
 * A quota is looked at when a packet starts and at each tick. So a group may use up to
 * one tick of each of its CPUs too much. It has that much less in its next periods.
 */
#ifndef DRFQ_QUOTA_BPF_H
#define DRFQ_QUOTA_BPF_H

/* A quota_us that is none. */
#define QUOTA_NONE (~0ULL)

/* A cgroup_quota.applies that is never true of the present quotas. */
#define QUOTA_UNKNOWN (~0ULL)

struct cgroup_quota {
	u64 period_ns;
	s64 quota_ns; /* 0: no quota */
	s64 most_ns; /* the most that it saves up: quota and burst */
	s64 left_ns; /* less than 0: used in advance */
	u64 refill_at_ns; /* when the next period begins (scx_bpf_now()) */
	/* Whether the group or an ancestor has a quota (bit 0), after so many changes of
	 * quotas (the other bits). */
	u64 applies;
	u32 refilling; /* 1: a CPU begins periods */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CGROUP_NODES);
	__type(key, u32);
	__type(value, struct cgroup_quota);
} cgroup_quotas SEC(".maps");

/* How many cgroups have a quota, and groups a pace (pace.bpf.h); how often quotas have
 * changed. Without any of them, reading the first is the only cost. */
static struct {
	u32 nr;
	u32 quota_changes;
} OWN_LINE limits;

static __always_inline bool limits_exist(void)
{
	return READ_ONCE(limits.nr) != 0;
}

static __always_inline struct cgroup_quota *quota_at(u32 index)
{
	return bpf_map_lookup_elem(&cgroup_quotas, &index);
}

/* Finds out whether group @index or an ancestor has a quota, and keeps that. A quota that
 * changes meanwhile changes the count too. */
__noinline int quota_find(u32 index)
{
	u64 changes = READ_ONCE(limits.quota_changes);
	struct cgroup_quota *first = quota_at(index);
	bool found = false;
	u32 level;

	if (!first)
		return 0;
	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		struct cgroup_quota *q = quota_at(index);

		if (!index || !node || !q || found)
			break;
		found = READ_ONCE(q->quota_ns) != 0;
		index = node->parent;
	}
	WRITE_ONCE(first->applies, changes << 1 | found);
	return found;
}

/* Returns whether a quota applies to the tasks of group @index. */
static __always_inline bool quota_applies(u32 index)
{
	struct cgroup_quota *q;
	u64 applies;

	q = quota_at(index);
	if (!index || !q)
		return false;
	applies = READ_ONCE(q->applies);
	if (applies >> 1 == READ_ONCE(limits.quota_changes))
		return applies & 1;
	return quota_find(index);
}

/*
 * Begins the periods of @q that are due at @now (ns). Another CPU that looks meanwhile sees the
 * last period, and perhaps what the new one gives. By both, drfq_quota_until() finds no later time.
 */
static __always_inline void quota_refill(struct cgroup_quota *q, u64 now)
{
	u64 at, periods, period_ns = READ_ONCE(q->period_ns);
	s64 left;

	if (drfq_before(now, READ_ONCE(q->refill_at_ns)) || !period_ns)
		return;
	if (__sync_lock_test_and_set(&q->refilling, 1))
		return;
	/* Another CPU may have begun them in between. */
	at = READ_ONCE(q->refill_at_ns);
	if (!drfq_before(now, at)) {
		periods = (now - at) / period_ns + 1;
		left = READ_ONCE(q->left_ns);
		left = drfq_quota_more(left, q->quota_ns, q->most_ns, periods);
		__sync_fetch_and_add(&q->left_ns, left);
		/* A quota that was set meanwhile has a period of its own. */
		__sync_val_compare_and_swap(&q->refill_at_ns, at, at + periods * period_ns);
	}
	__sync_lock_test_and_set(&q->refilling, 0);
}

/* Returns when @q has some left (ns); 0: now. In this order: quota_refill() gives first. */
static __always_inline u64 quota_until(const struct cgroup_quota *q)
{
	u64 refill_at = READ_ONCE(q->refill_at_ns);

	return drfq_quota_until(READ_ONCE(q->left_ns), q->quota_ns, q->period_ns, refill_at);
}

/* Takes @run_ns from the quotas of group @index and of its ancestors. Returns when all of
 * them have some again (ns); 0: now. A period that has begun since the last look begins
 * after the time was taken: it was used before it, for the most part. */
__noinline u64 quota_charge(u32 index, u64 run_ns)
{
	u64 now, until = 0;
	u32 level;

	if (!quota_applies(index))
		return 0;
	now = scx_bpf_now();
	bpf_for(level, 0, CGROUP_LEVELS) {
		struct cgroup_node *node = cgroup_node_at(index);
		struct cgroup_quota *q = quota_at(index);
		u64 end;

		if (!index || !node || !q)
			break;
		if (q->quota_ns) {
			if (run_ns)
				__sync_fetch_and_sub(&q->left_ns, run_ns);
			quota_refill(q, now);
			end = quota_until(q);
			if (end && (!until || drfq_before(until, end)))
				until = end;
		}
		index = node->parent;
	}
	return until;
}

/* Gives group @index a quota (us for each period); QUOTA_NONE takes it away. */
static void quota_set(u32 index, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct cgroup_quota *q = quota_at(index);
	bool has = quota_us != QUOTA_NONE && quota_us && period_us, had;

	if (!q)
		return;
	had = q->quota_ns;
	if (!has && !had)
		return;
	q->period_ns = period_us * 1000;
	q->most_ns = has ? (quota_us + burst_us) * 1000 : 0;
	q->left_ns = has ? quota_us * 1000 : 0;
	q->refill_at_ns = scx_bpf_now() + q->period_ns;
	WRITE_ONCE(q->quota_ns, has ? quota_us * 1000 : 0);
	__sync_fetch_and_add(&limits.quota_changes, 1);
	if (has != had)
		__sync_fetch_and_add(&limits.nr, has ? 1 : -1);
}

/* Group @index is new and has no quota yet. */
static __always_inline void quota_init(u32 index)
{
	struct cgroup_quota *q = quota_at(index);

	if (q)
		q->applies = QUOTA_UNKNOWN;
}

#endif /* DRFQ_QUOTA_BPF_H */
