/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paces: how fast a group of tasks may move memory traffic, where no hardware slows it
 * down. The agent forms the groups and sets the paces (--throttle hold). Every charge of
 * a task moves the time until which its group's pace is used up. throttle.bpf.h makes
 * tasks wait until then.
 */
#ifndef DRFQ_PACE_BPF_H
#define DRFQ_PACE_BPF_H

/* By group. Each is on a line of its own. */
static struct pace {
	u64 ns_per_byte_q32; /* 32.32 fixed point; 0: the group has no pace */
	u64 due_ns; /* until when the pace is used up (scx_bpf_now()) */
} __attribute__((aligned(64))) paces[DRFQ_PACES];

/* Returns the pace of group @index, which is less than DRFQ_PACES; NULL: it stands for no
 * group. */
static __always_inline struct pace *pace_at(u32 index)
{
	index %= DRFQ_PACES;
	return index ? &paces[index] : NULL;
}

/* Group @index moved @bytes. */
__noinline int pace_take(u32 index, u64 bytes)
{
	struct pace *pace = pace_at(index);
	u64 now = scx_bpf_now(), rate, due, ns;
	u32 frac = 0;

	rate = pace ? READ_ONCE(pace->ns_per_byte_q32) : 0;
	if (!rate)
		return 0;
	ns = drfq_scale(bytes, rate, &frac);
	due = READ_ONCE(pace->due_ns);
	/* Where another CPU charges the group at the same time, both charges count. */
	if (__sync_val_compare_and_swap(&pace->due_ns, due,
					drfq_pace_next(due, now, ns, hold_max_ns)) != due)
		__sync_fetch_and_add(&pace->due_ns, ns);
	return 0;
}

/* A task of group @index (0: it is in none) moved @bytes. */
static __always_inline void pace_charge(u32 index, u64 bytes)
{
	if (index && bytes)
		pace_take(index, bytes);
}

/* Returns until when the tasks of group @index must wait (scx_bpf_now(), ns); 0: not. */
static __always_inline u64 pace_until(u32 index)
{
	struct pace *pace = pace_at(index);
	u64 due;

	if (!pace || !READ_ONCE(pace->ns_per_byte_q32))
		return 0;
	due = READ_ONCE(pace->due_ns);
	return drfq_before(scx_bpf_now(), due) ? due : 0;
}

/* Sets the pace of a group. One that begins anew owes nothing. */
SEC("syscall")
int drfq_set_pace(struct drfq_pace_arg *arg)
{
	struct pace *pace = pace_at(arg->index);
	bool has = arg->ns_per_byte_q32, had;

	if (!pace || arg->index >= DRFQ_PACES)
		return -EINVAL;
	had = pace->ns_per_byte_q32;
	if (!had)
		pace->due_ns = scx_bpf_now();
	WRITE_ONCE(pace->ns_per_byte_q32, arg->ns_per_byte_q32);
	if (has != had)
		__sync_fetch_and_add(&limits.nr, has ? 1 : -1);
	return 0;
}

/* Puts a task into a group. */
SEC("syscall")
int drfq_set_pace_group(struct drfq_pace_group_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t;

	if (!p)
		return -ESRCH;
	t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (t)
		WRITE_ONCE(t->pace, arg->index);
	bpf_task_release(p);
	return 0;
}

#endif /* DRFQ_PACE_BPF_H */
