/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of a replay: see replay.c. Times are ns. */
#ifndef DRFQ_NATIVE_REPLAY_H
#define DRFQ_NATIVE_REPLAY_H

#include "strand.h"

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
/* The scheduler was loaded long before. The trace tells when kicks are carried out. */
void replay_begin(struct machine *m);
/* The kicks of @cpu are carried out. */
void replay_kicks(struct machine *m, s32 cpu);
void replay_set_identity(struct machine *m, struct task_struct *p,
			 const struct replay_identity *id);

/* @p runs on @cpu when the recording begins. */
void replay_adopt(struct machine *m, struct task_struct *p, s32 cpu);
/* strand_start(). The task was last on, or comes to, the run queue that the trace tells. */
void replay_start(struct machine *m, u64 now_ns, const struct strand_call *call);
/* dequeue_task_scx(). @sleeps: the task blocks, and does not migrate. */
void replay_dequeue(struct machine *m, u64 now_ns, struct task_struct *p, bool sleeps);
/* @cpu runs @p (NULL: it idles), whatever the scheduler would run. */
void replay_force(struct machine *m, u64 now_ns, s32 cpu, struct task_struct *p);
/* The affinity changes; that of a task that must not migrate does for now. A migration, if one
 * follows, is in the trace. */
void replay_change_cpus(struct machine *m, u64 now_ns, struct task_struct *p,
			const struct cpumask *allowed);
/* A change that nothing of ours follows: the task is taken from its run queue and put back. */
void replay_requeue(struct machine *m, u64 now_ns, struct task_struct *p);
/* The task is gone. */
void replay_exit(struct machine *m, u64 now_ns, struct task_struct *p);
/* The task must not migrate for now (migrate_disable()). */
void replay_set_stays(struct task_struct *p, bool stays);
/* S as the task's place in queues. */
u64 replay_key(const struct task_struct *p);
/* Tasks on all DSQs that are not local. */
u32 replay_nr_queued(const struct machine *m);

#endif /* DRFQ_NATIVE_REPLAY_H */
