/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callbacks that a replay runs in parts, as the kernel did on several CPUs at a time.
 *
 * A strand runs one path of the kernel with its callbacks. It stops before each point that the
 * trace has an event of, and goes on when the replay has come to that event. So what several CPUs
 * did to queues, idle bits and V at nearly the same time happens here in the same order.
 */
#ifndef DRFQ_NATIVE_STRAND_H
#define DRFQ_NATIVE_STRAND_H

#include "machine.h"

/* Points: what a strand does next, and what a resumption tells it. */
enum strand_point {
	STRAND_DONE, /* the path has ended */
	STRAND_LOOK, /* at a DSQ */
	STRAND_BEGIN, /* to take a task from a DSQ */
	STRAND_UNLINK, /* a task from a DSQ, with the lock of its run queue */
	STRAND_TAKE, /* the task is on the local DSQ */
	STRAND_NOW, /* scx_bpf_now(); told: the clock */
	STRAND_IDLE, /* choose an idle CPU; told: the kernel's choice among several */
	STRAND_DRAW, /* bpf_get_prandom_u32(); told: the number */
	STRAND_DECIDED, /* the next task is known */
	STRAND_INSERT, /* what a callback inserted goes to its DSQ */
	STRAND_SET_IDLE, /* the CPU's idle bit */
	STRAND_SET_NEXT, /* ops.running follows */
};

enum strand_path {
	STRAND_SELECT, /* ops.select_cpu; result: the CPU */
	STRAND_ENQUEUE, /* enqueue_task_scx() */
	STRAND_SCHEDULE, /* __schedule(); result: the next task's number; -1: idle */
	STRAND_TICK, /* task_tick_scx() */
	STRAND_UPDATE_IDLE, /* scx_update_idle(); flags: whether the CPU idles */
};

/* What to run. */
struct strand_call {
	enum strand_path path;
	/* The CPU that runs the path, and the CPU of the run queue. */
	s32 cpu, on;
	u64 flags;
	struct task_struct *task;
};

/* Starts a path at @now_ns, up to its first point. The CPU has no strand. */
void strand_start(struct machine *m, u64 now_ns, const struct strand_call *call);
/* The point at which the strand of @cpu stands, and for STRAND_LOOK the id of the DSQ. */
u32 strand_point_of(const struct machine *m, s32 cpu);
u64 strand_detail(const struct machine *m, s32 cpu);
/* Goes on to the next point. @told: NULL if the trace does not tell. */
void strand_resume(struct machine *m, s32 cpu, const u64 *told);
/* Goes on to the end. */
void strand_finish(struct machine *m, s32 cpu);
s64 strand_result(const struct machine *m, s32 cpu);
/* The run queue's clock, which the path of @cpu goes by. */
void strand_set_now(struct machine *m, s32 cpu, u64 now_ns);

/* For the model: stops at @point. Returns what the replay tells; @otherwise: it does not tell. */
u64 strand_wait(enum strand_point point, u64 detail, u64 otherwise);
/* Stops at STRAND_DECIDED: @next is the next task. */
void strand_decide(struct machine *m, const struct task_struct *next);
/* The task is gone. */
void strands_forget(struct machine *m, const struct task_struct *p);
void strands_free(struct machine *m);

#endif /* DRFQ_NATIVE_STRAND_H */
