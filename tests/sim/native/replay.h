/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of a replay: see replay.c. Times are ns. */
#ifndef DRFQ_NATIVE_REPLAY_H
#define DRFQ_NATIVE_REPLAY_H

#include "machine.h"

struct replay_identity {
	s32 static_prio;
	u32 policy;
	u32 flags;
	/* S (ns of virtual time); 0: as it is. */
	u64 start_ns;
	/* The leader of the task's thread group; NULL: the task itself. */
	struct task_struct *leader;
};

/* Time that interrupts have taken from @cpu so far. */
void replay_set_stolen(struct machine *m, s32 cpu, u64 ns);
/* What bpf_get_prandom_u32() returns from now on; -1: what it draws. */
void replay_set_draw(struct machine *m, s64 draw);
/* Which of several idle CPUs is chosen from now on; -1: the first. */
void replay_set_idle_hint(struct machine *m, s32 cpu);
void replay_set_identity(struct machine *m, struct task_struct *p,
			 const struct replay_identity *id);

/* ops.select_cpu on @cpu, the waker's; returns the CPU that it chose. */
s32 replay_select(struct machine *m, u64 now_ns, struct task_struct *p, s32 cpu, u64 wake_flags);
/* enqueue_task_scx() and dequeue_task_scx(), on the run queue of @cpu. */
void replay_enqueue(struct machine *m, u64 now_ns, struct task_struct *p, s32 cpu, u64 enq_flags);
void replay_dequeue(struct machine *m, u64 now_ns, struct task_struct *p);
/* @cpu runs @p (NULL: it idles), whatever the scheduler would run. */
void replay_force(struct machine *m, u64 now_ns, s32 cpu, struct task_struct *p);
/* The affinity changes; a migration, if one follows, is in the trace. */
void replay_change_cpus(struct machine *m, u64 now_ns, struct task_struct *p,
			const struct cpumask *allowed);
/* The task is gone. */
void replay_exit(struct machine *m, u64 now_ns, struct task_struct *p);
/* Tasks on all DSQs that are not local. */
u32 replay_nr_queued(const struct machine *m);

#endif /* DRFQ_NATIVE_REPLAY_H */
