/* SPDX-License-Identifier: GPL-2.0-only */
/* The end of the scheduler, and its next load: scx_disable_workfn() and scx_enable_workfn(). */
#include <stdlib.h>

#include "model.h"

static bool lives(const struct task_struct *p)
{
	return !(p->flags & PF_EXITING);
}

static bool waits(const struct machine *m, const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED && m->rqs[p->cpu].curr != p;
}

/* The task goes to the class of fair tasks. It stays where it is. */
static void take_task(struct machine *m, struct task_struct *p)
{
	struct scx_exit_task_args args = {};
	bool queued = p->scx.flags & SCX_TASK_QUEUED;

	m->this_cpu = p->cpu;
	if (queued)
		dequeue_task(m, p, 0);
	m->ops->disable(p);
	m->ops->exit_task(p, &args);
	if (queued)
		p->scx.flags |= SCX_TASK_QUEUED;
}

/* The task comes back from the class of fair tasks. Queues stay empty until all are back
 * (scx_bypass()), and what runs goes on. */
static void give_task(struct machine *m, struct task_struct *p)
{
	m->this_cpu = p->cpu;
	m->ops->enable(p);
	m->ops->set_weight(p, 100);
	if (p->weight)
		scheduler_task_set_weight(p, p->weight);
	if (m->rqs[p->cpu].curr == p)
		restore_running(m, p);
}

/*
 * The bypass: each CPU that other tasks wait for runs one of them, in no order of ours. It keeps
 * the CPU for a slice of the kernel's afterwards.
 */
static void bypass(struct machine *m)
{
	for (u32 i = 0; i < m->nr_tasks; i++) {
		struct task_struct *next = m->tasks[i], *curr = m->rqs[next->cpu].curr;

		if (!lives(next) || !waits(m, next) || !curr || curr->scx.slice == SCX_SLICE_DFL)
			continue;
		m->this_cpu = next->cpu;
		m->ops->stopping(curr, true);
		next->se.exec_start = task_clock(m, next->cpu);
		next->sched_info.last_queued = 0;
		next->scx.slice = SCX_SLICE_DFL;
		set_curr(m, next->cpu, next);
		m->ops->running(next);
	}
}

/* scx_bypass(), as in suspend: the kernel asks for no task meanwhile, and tells of no idle CPU. At
 * the end each CPU looks again. */
void machine_bypass(struct machine *m, u64 now_ns, bool bypassed)
{
	m->bypassed = bypassed;
	for (u32 cpu = 0; !bypassed && cpu < m->nr_cpus; cpu++)
		if (!m->rqs[cpu].curr)
			machine_schedule(m, now_ns, (s32)cpu);
}

u32 machine_busy_cpus(struct machine *m)
{
	load_globals(m);
	return *scheduler_busy_cpus();
}

void machine_idle_at_load(struct machine *m, u32 loads)
{
	m->loads_until_idle = loads;
}

struct task_struct *machine_curr(const struct machine *m, s32 cpu)
{
	return m->rqs[cpu].curr;
}

/* Maps and storage belong to one load of the scheduler, but for the accounts of the tasks. */
static void drop_maps(struct machine *m)
{
	for (u32 i = 0; i < NATIVE_MAX_ARRAYS; i++)
		if (m->arrays[i].values)
			memset(m->arrays[i].values, 0, m->arrays[i].bytes);
	memset(m->hashes, 0, sizeof(m->hashes));
	for (u32 i = 0; i < NATIVE_SOCKETS; i++) {
		free(m->sockets[i].storage);
		m->sockets[i].storage = NULL;
	}
	cgroups_drop_storage(m);
	m->nr_dsqs = 0;
	m->timer = NULL;
	m->timer_due_ns = NATIVE_NEVER;
}

void machine_restart(struct machine *m, u64 now_ns, const struct scheduler_options *options)
{
	struct scheduler_options resumed = *options;
	struct scx_init_task_args args = {};

	machine_use(m, now_ns, 0);
	m->ops->cpu_offline(0);
	for (u32 i = 0; i < m->nr_tasks; i++)
		if (lives(m->tasks[i]))
			take_task(m, m->tasks[i]);
	resumed.v_origin_ns = scheduler_v_ns();
	resumed.bus_v_origin_ns = scheduler_bus_v_ns();
	scheduler_add_events(m->past_events);
	drop_maps(m);
	load_scheduler(m, &resumed);
	cgroups_load(m);
	for (u32 i = 0; i < m->nr_tasks; i++)
		if (lives(m->tasks[i]) && m->ops->init_task(m->tasks[i], &args))
			scx_bpf_error("ops.init_task failed");
	for (u32 i = 0; i < m->nr_tasks; i++)
		if (lives(m->tasks[i]))
			give_task(m, m->tasks[i]);
	bypass(m);
	for (u32 i = 0; i < m->nr_tasks; i++)
		if (lives(m->tasks[i]) && waits(m, m->tasks[i]))
			enqueue_task(m, m->tasks[i], 0);
	for (u32 cpu = 0; cpu < m->nr_cpus; cpu++)
		m->rqs[cpu].resched = true;
}
