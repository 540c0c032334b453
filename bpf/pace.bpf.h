/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paces: how fast a group of tasks may move memory traffic, where no hardware slows it
 * down. The agent forms the groups and sets the paces (--throttle hold). Every charge of
 * a task moves the time until which its group's pace is used up. throttle.bpf.h makes
 * tasks wait until then.
 */
#ifndef DRFQ_PACE_BPF_H
#define DRFQ_PACE_BPF_H

/* By group. */
struct drfq_pace paces[DRFQ_PACES] SEC(".data.paces");

/* Returns the pace of group @index, which is less than DRFQ_PACES; NULL: it stands for no
 * group. */
static __always_inline struct drfq_pace *pace_at(u32 index)
{
	index %= DRFQ_PACES;
	return index ? &paces[index] : NULL;
}

/* Group @index moved @bytes. */
__noinline int pace_take(u32 index, u64 bytes)
{
	struct drfq_pace *pace = pace_at(index);
	u64 now, rate, due, ns;
	u32 frac = 0;

	if (!pace)
		return 0;
	__sync_fetch_and_add(&pace->bytes, bytes);
	rate = READ_ONCE(pace->ns_per_byte_q32);
	if (!rate)
		return 0;
	now = scx_bpf_now();
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
	struct drfq_pace *pace = pace_at(index);
	u64 now, due;

	if (!pace || !READ_ONCE(pace->ns_per_byte_q32))
		return 0;
	now = scx_bpf_now();
	/* Two charges at the same time may exceed the longest wait. */
	due = drfq_earlier(READ_ONCE(pace->due_ns), now + hold_max_ns);
	return drfq_before(now, due) ? due : 0;
}

/* Sets the pace of a group (32.32 fixed point; 0: none). One that begins anew owes nothing.
 * What a group owes lasts as long as its new pace takes for it. Returns whether the timer
 * must look at once: the group begins to have a pace, or its tasks may have to wait less. */
static bool pace_set(struct drfq_pace *pace, u64 rate)
{
	u64 old = pace->ns_per_byte_q32, due = READ_ONCE(pace->due_ns), now = scx_bpf_now(), new;

	if (old == rate)
		return false;
	new = drfq_pace_changed(due, now, old, rate);
	/* A charge at this moment wins. The next charge corrects what is owed too much. */
	__sync_val_compare_and_swap(&pace->due_ns, due, new);
	WRITE_ONCE(pace->ns_per_byte_q32, rate);
	if (!rate != !old)
		__sync_fetch_and_add(&limits.nr, rate ? 1 : -1);
	return !old || rate < old;
}

/* Returns what a group moved ahead of its pace (bytes): that for which its tasks have yet to
 * wait. What takes over 4 s is left out. */
static __always_inline u64 pace_ahead(const struct drfq_pace *pace, u64 now)
{
	u64 rate = READ_ONCE(pace->ns_per_byte_q32), due = READ_ONCE(pace->due_ns);

	if (!rate || !drfq_before(now, due))
		return 0;
	return ((drfq_earlier(due, now + 0xffffffffULL) - now) << 32) / rate;
}

/* Reckons for each group what it has moved and waited for. A request of a disk is charged as
 * a whole when it begins, so what was charged grows in steps where the pace does not. */
static __always_inline void paces_read(void)
{
	u64 now = scx_bpf_now();

	for (u32 i = 1; i < DRFQ_PACES; i++) {
		struct drfq_pace *pace = &paces[i];
		u64 ahead = pace_ahead(pace, now), bytes = READ_ONCE(pace->bytes);

		WRITE_ONCE(pace->paid_bytes, bytes - (ahead < bytes ? ahead : bytes));
	}
}

#endif /* DRFQ_PACE_BPF_H */
