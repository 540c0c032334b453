/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the model share. */
#ifndef DRFQ_NATIVE_MODEL_H
#define DRFQ_NATIVE_MODEL_H

#include "count.h"
#include "machine.h"
#include "strand.h"

#define NATIVE_MAX_DSQS 2048
#define NATIVE_MAX_ARRAYS 8
#define NATIVE_HASH_ENTRIES 64
#define NATIVE_HASHES 3
#define NICE_0_PRIO 120

/* A task that has ended: its parent has reaped it, or not yet. */
#define EXIT_DEAD 0x10
#define EXIT_ZOMBIE 0x20

/* Values of __state. */
#define TASK_INTERRUPTIBLE 1
#define TASK_WAKING 0x200
#define TASK_NEW 0x800

/* A CPU. */
struct cpu_rq {
	struct rq kernel;
	struct task_struct *curr; /* NULL: the idle task, or a higher class */
	/* It has blocked, and the next task is not picked yet. */
	struct task_struct *blocked;
	struct dsq local;
	bool resched;
	/* ops.dispatch is at work. */
	bool balancing;
	/* The last task is queued again. The kernel has chosen the next one before. */
	bool putting;
	/* The idle task runs; its bit in the idle mask is a claim on top of it. */
	bool idle;
	/* A task of a higher class runs. */
	bool taken;
	u64 traffic;
	/* What its second counter counts, if it has one. */
	u64 writes;
	/* The traffic counter: its start, how long it had no hardware since, and whether the kernel
	 * has evicted it. */
	u64 counter_from, counter_opened_ns, counter_waited_ns;
	bool counter_dead;
	/* Time that interrupts took, which no task is charged for. */
	u64 stolen_ns;
	/* CPUs whose packet ends when this CPU's kicks are carried out. */
	struct cpumask kicks;
};

struct array_map {
	void *map;
	char *values;
	size_t value_bytes, bytes;
};

/* The oldest entry goes where there are too many. */
struct hash_map {
	const void *map;
	struct {
		u64 key[2], value[4];
	} entries[NATIVE_HASH_ENTRIES];
	u32 nr;
};

/* SOFTIRQ_OFFSET: the CPU serves a softirq. */
#define SERVES_SOFTIRQ (1 << 8)

struct machine {
	u64 now_ns, jiffy_ns;
	u32 nr_cpus;
	s32 this_cpu;
	/* Of this CPU, by which the kernel knows whether it serves an interrupt. */
	int preempt_count;
	const struct sched_ext_ops *ops;
	/* The callbacks while operations are counted, and the counter; NULL: they are not. */
	struct sched_ext_ops counted_ops;
	struct counter *counter;
	struct cpu_rq *rqs;
	/* The kernel bypasses the scheduler. */
	bool bypassed;
	/* machine_idle_at_load() */
	u32 loads_until_idle;
	struct dsq dsqs[NATIVE_MAX_DSQS];
	u32 nr_dsqs;
	struct dsq global;
	u32 *llc_of_cpu;
	/* CPUs 2n and 2n + 1 are threads of one core. */
	bool smt;
	struct cpumask idle_mask;
	/* The task that forks now; and one that stands for all outside sched_ext. */
	struct task_struct *forking, outsider;
	struct task_struct **tasks;
	u32 nr_tasks, tasks_room;
	struct cgroup root_group, **groups;
	u32 nr_groups;
	struct array_map arrays[NATIVE_MAX_ARRAYS];
	struct hash_map hashes[NATIVE_HASHES];
	struct sock sockets[NATIVE_SOCKETS];
	struct bpf_timer *timer;
	u64 timer_due_ns;
	u64 random;
	/* Of a replay: the strands of the CPUs, and the one that runs (NULL: none). */
	struct strand *strands, *strand;
	/* The trace tells when kicks are carried out. */
	bool kicks_wait;
	/* What the earlier loads of the scheduler have counted. */
	u64 past_events[DRFQ_NR_EVENTS];
	char *image; /* the scheduler's variables while another machine is in use */
	char error[128];
};

/* The machine that the kfuncs act on. */
extern struct machine *machine_in_use;
/* Loads the scheduler's variables of @m. */
void load_globals(struct machine *m);
/* Makes @m the machine in use, at @now_ns, with callbacks on @cpu. */
void machine_use(struct machine *m, u64 now_ns, s32 cpu);

struct dsq *dsq_find(struct machine *m, u64 id);
void dsq_add(struct machine *m, struct dsq *dsq, struct task_struct *p, u64 enq_flags,
	     bool by_vtime);
void dsq_remove(struct task_struct *p);
/* A task came to the local DSQ of @cpu. */
void local_dsq_grew(struct machine *m, s32 cpu);

/* scx_bpf_reenqueue_local() on @cpu. Returns how many tasks it queued again. */
u32 reenqueue_local(struct machine *m, s32 cpu);

/* The paths of ext.c that changes of a task from outside take, too. */
void update_curr(struct machine *m, s32 cpu);

/*
 * @p (NULL: none of this class) is on @cpu from now on. The programs of BPF that run there
 * are in a read section of RCU of their own, which counts in the current task.
 */
void set_curr(struct machine *m, s32 cpu, struct task_struct *p);
void enqueue_task(struct machine *m, struct task_struct *p, u64 enq_flags);
void dequeue_task(struct machine *m, struct task_struct *p, u64 deq_flags);
void wakeup_preempt(struct machine *m, s32 cpu);
void put_prev(struct machine *m, struct task_struct *prev);
void set_next(struct machine *m, s32 cpu, struct task_struct *next);
void set_idle(struct machine *m, s32 cpu, bool idle);

/* What sched_change does, by what is changed. */
typedef void task_change(struct machine *m, struct task_struct *p, const void *to);
void change_task(struct machine *m, struct task_struct *p, task_change *change, const void *to);
/* A running task comes back to the scheduler, without ops.enqueue. */
void restore_running(struct machine *m, struct task_struct *p);
task_change change_cpus, change_nice, change_cgroup;
void set_allowed(struct task_struct *p, const struct cpumask *allowed, u32 nr_cpus);
/* A CPU that is not @cpu, if there is one: callbacks that another task causes run there. */
s32 other_cpu(struct machine *m, s32 cpu);

void cgroups_free(struct machine *m);
/* The scheduler has ended; it is loaded again, and learns of all groups. */
void cgroups_drop_storage(struct machine *m);
void cgroups_load(struct machine *m);
/* Gives the variables of the scheduler their first values, and calls ops.init. */
void load_scheduler(struct machine *m, const struct scheduler_options *options);

static inline bool cpumask_has(const struct cpumask *mask, s32 cpu)
{
	return mask->bits[cpu / 64] >> (cpu % 64) & 1;
}

/* rq_clock_task(). */
static inline u64 task_clock(const struct machine *m, s32 cpu)
{
	return m->now_ns - m->rqs[cpu].stolen_ns;
}

void cpumask_set(struct cpumask *mask, s32 cpu, bool value);

#endif /* DRFQ_NATIVE_MODEL_H */
