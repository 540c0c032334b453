/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of limits in wall-clock time: budgets (ahead.bpf.h, rescue.bpf.h), quotas
 * (quota.bpf.h) and paces (pace.bpf.h). Like drfq.h it serves BPF and the host.
 */
#ifndef DRFQ_LIMITS_H
#define DRFQ_LIMITS_H

#include "drfq.h"

/* A budget is this part of one CPU's time: 1/20. */
#define DRFQ_BUDGET_PART 20

/* A budget saves up at most its part of this time (wall clock, ns). */
#define DRFQ_BUDGET_WINDOW_NS 1000000000ULL

/* A budget lacks at most its part of this time (wall clock, ns). A packet uses that much only
 * where a host stops the virtual CPU, because the kernel counts that time as the task's. */
#define DRFQ_BUDGET_DEBT_NS 5000000000ULL

/*
 * Returns the time until which a budget has been used up (wall clock, ns), after
 * @used_ns of CPU time more. @until: that time so far. @now: the time.
 */
DRFQ_FN u64 drfq_budget_spend(u64 until, u64 now, u64 used_ns)
{
	until = drfq_later(until, now - DRFQ_BUDGET_WINDOW_NS) + used_ns * DRFQ_BUDGET_PART;
	return drfq_earlier(until, now + DRFQ_BUDGET_DEBT_NS);
}

/* Returns whether a budget that is used up until @until has more left at @now than its
 * part of @reserve_ns (all: wall clock, ns). */
DRFQ_FN bool drfq_budget_left(u64 until, u64 now, u64 reserve_ns)
{
	return !drfq_before(now, until + reserve_ns);
}

/*
 * Returns what a quota grows by when @periods begin (ns of CPU time). @left: what it has
 * (less than 0: used in advance). @quota: what a period gives, more than 0. @most: what
 * it saves up.
 */
DRFQ_FN s64 drfq_quota_more(s64 left, s64 quota, s64 most, u64 periods)
{
	u64 room = left < most ? (u64)(most - left) : 0;

	if (periods > room / (u64)quota)
		return (s64)room;
	return (s64)((u64)quota * periods);
}

/*
 * Returns when a quota has some left (wall clock, ns); 0: now. @left, @quota: as above.
 * @refill: when the next period begins.
 */
DRFQ_FN u64 drfq_quota_until(s64 left, s64 quota, u64 period_ns, u64 refill)
{
	if (left > 0)
		return 0;
	return refill + (u64)-left / (u64)quota * period_ns;
}

/* What a pace saves up at most (wall clock, ns). It exceeds the time by which a wait for a
 * pace may end late. */
#define DRFQ_PACE_BURST_NS 20000000ULL

/*
 * Returns until when a pace is used up, after traffic that takes @ns at that pace. @due:
 * that time so far. @now: the time. @most: the longest wait (all: wall clock, ns).
 */
DRFQ_FN u64 drfq_pace_next(u64 due, u64 now, u64 ns, u64 most)
{
	due = drfq_later(due, now - DRFQ_PACE_BURST_NS) + ns;
	return drfq_earlier(due, now + most);
}

/* By how much a wait grows at most where a pace becomes tighter, and the longest wait for
 * which that holds (wall clock, ns). */
#define DRFQ_PACE_TIGHTENS_MAX 16ULL
#define DRFQ_PACE_OWES_MAX_NS (1ULL << 40)

/*
 * Returns until when a pace is used up that changes from @old to @rate (ns per byte, 0:
 * none). @due: that time so far. @now: the time (wall clock, ns).
 */
DRFQ_FN u64 drfq_pace_changed(u64 due, u64 now, u64 old, u64 rate)
{
	u64 ratio_q16;

	if (!old || !rate)
		return now;
	if (!drfq_before(now, due))
		return due;
	ratio_q16 = rate / ((old >> 16) + 1);
	/* The bounds keep the product in 64 bits. */
	if (ratio_q16 > DRFQ_PACE_TIGHTENS_MAX << 16)
		ratio_q16 = DRFQ_PACE_TIGHTENS_MAX << 16;
	return now + ((drfq_earlier(due, now + DRFQ_PACE_OWES_MAX_NS) - now) * ratio_q16 >> 16);
}

#endif /* DRFQ_LIMITS_H */
