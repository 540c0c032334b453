/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task's account: its flow, its weights, and what it was charged for.
 *
 * When the agent loads the scheduler again, it hands it the map of the accounts and V and B of the
 * last one. So a task owes and is owed what it was, and its totals go on.
 */
#ifndef DRFQ_ACCOUNT_BPF_H
#define DRFQ_ACCOUNT_BPF_H

/* A task, also once it has ended: its id may have a new owner, which started later. */
struct task_id {
	u64 started_ns;
	u32 pid; /* 0: not known */
	u32 unused;
};

struct task_ctx {
	struct drfq_flow flow;
	/* What follows, down to charged_ns, means nothing once the scheduler is loaded again. */
	u32 flags; /* enum drfq_task_flags */
	/* The task's own weight. flow.weight is the effective one. */
	u32 weight;
	/* What a rule gives it; 0: no rule does. Not 0 in rule_changed: its next charge
	 * must take that over. */
	u32 rule_weight;
	u32 rule_changed;
	/* Node index of its cgroup; 0 is the root group. */
	u32 cgroup;
	/* The CPU that counts it as urgent (urgent.bpf.h), plus 1; 0: none does. */
	u32 urgent_cpu;
	/* Not 0: the scheduler has the task. The kernel also tells of changes of others. */
	u32 enabled;
	/* What counts of it as active: the node index, and the weight in the low half; 0:
	 * nothing does. The timer changes it too (throttle.bpf.h). */
	u64 counted;
	/* Its id in the memory controller, never 0. */
	u32 hw_id;
	/* The group whose pace it has (pace.bpf.h); 0: none. */
	u32 pace;
	/* 1: its affinity made it leave its CPU, and it has not come to another one yet. Its
	 * S is then relative to the packet that ran there as it left, whose S was so far
	 * after V (virtual ns). */
	u32 leaves_cpu;
	s64 left_after_v_ns;
	/* Bit i: the task may run on every CPU of LLC i. */
	u64 whole_llcs;
	/* The same for its configured affinity, while it must not migrate; 0: not known. */
	u64 configured_llcs;
	u32 stays; /* not 0: it must not migrate */
	/* With DRFQ_TASK_PLACED: where its waker was in the order of S (place.bpf.h, ns). */
	u64 place_ns;
	/* The kernel's sum_exec_runtime at the last charge (ns). */
	u64 exec_ns;
	/* The last charge: running time (ns), and what bus_vt grew by (ns). */
	u64 last_run_ns;
	u64 last_bus_ns;
	/* The mark of what one of a pair of programs has handled for it (twice.bpf.h); 0: none. */
	u64 handled_mark;
	/* Start of the present hold, and of the present wait for a quota or a pace (wall clock,
	 * ns). */
	u64 held_since_ns;
	u64 throttled_since_ns;
	/* Totals that were charged: CPU time, all traffic, traffic of devices. */
	u64 charged_ns;
	u64 bytes;
	u64 dma_bytes;
	/* Moved by devices, not charged yet, and what of the charged was then refused (dma.bpf.h).
	 * Other CPUs add to them. */
	u64 dma_pending_bytes;
	u64 dma_refused_bytes;
	/* Moved by a CPU and counted by a memory controller, not charged yet.
	 * Other CPUs add to it. */
	u64 mc_pending_bytes;
	/* Holds, and waits for a quota or a pace (throttle.bpf.h): totals, the longest hold (wall
	 * clock, ns). */
	u64 held_ns;
	u64 max_held_ns;
	u64 throttled_ns;
	/* The task that made it, or the heir of that, and whether it has made one itself
	 * (fork.bpf.h). */
	struct task_id maker;
	u32 has_made;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* Returns the account of @p. Counts a failed look-up, after which NULL is returned. */
static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (!t)
		count(DRFQ_EV_NO_ACCOUNT);
	return t;
}

static __always_inline bool task_is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

/* signal->flags: all threads of the process exit. */
#define SIGNAL_GROUP_EXIT 4

/* Returns whether @p exits, or will because its process is killed. */
static __always_inline bool task_ends(const struct task_struct *p)
{
	return (p->flags & PF_EXITING) || (p->signal->flags & SIGNAL_GROUP_EXIT);
}

static __always_inline bool task_is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

#define POLICY_EXT 7

/* Priorities below this one are those of real-time and deadline tasks. */
#define PRIO_MAX_RT 100

/* Returns whether @p belongs to a class above sched_ext now. A task that holds a lock for which a
 * real-time task waits has its priority, whatever its policy. */
static __always_inline bool is_of_higher_class(const struct task_struct *p)
{
	return p->prio < PRIO_MAX_RT || (partial && p->pid && p->policy != POLICY_EXT);
}

#endif /* DRFQ_ACCOUNT_BPF_H */
