/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Single steps of the kernel, for the replay of a recorded run: what the trace tells is done, in
 * parts that the paths of ext.c join. What the scheduler decides is returned; where the kernel
 * decided otherwise, the machine is brought to where the kernel was.
 */
#include "model.h"
#include "replay.h"

void replay_set_stolen(struct machine *m, s32 cpu, u64 ns)
{
	m->rqs[cpu].stolen_ns = ns;
}

void replay_begin(struct machine *m)
{
	load_globals(m);
	scheduler_settle();
	scheduler_fill_budgets();
	m->kicks_wait = true;
}

void replay_kicks(struct machine *m, s32 cpu)
{
	struct cpumask *kicks = &m->rqs[cpu].kicks;

	for (s32 to = 0; to < (s32)m->nr_cpus; to++)
		if (cpumask_has(kicks, to) && m->rqs[to].curr)
			m->rqs[to].curr->scx.slice = 0;
	*kicks = (struct cpumask){};
}

void replay_set_identity(struct machine *m, struct task_struct *p, const struct replay_identity *id)
{
	load_globals(m);
	p->prio = p->static_prio = id->static_prio;
	p->policy = id->policy;
	p->flags = id->flags;
	if (id->leader && id->leader != p) {
		p->group_leader = id->leader;
		p->tgid = id->leader->pid;
	}
	if (id->start_ns)
		scheduler_task_set_start(p, id->start_ns);
	m->ops->set_weight(p, 100);
}

void replay_adopt(struct machine *m, struct task_struct *p, s32 cpu)
{
	machine_adopt_running(m, 0, p, cpu);
	/* The scheduler was loaded long before, and gave the slice. */
	p->scx.slice = scheduler_slice_ns();
}

/* The kernel chose @cpu where the scheduler claimed another idle CPU. */
static void replay_claim(struct machine *m, struct task_struct *p, s32 cpu)
{
	if (m->rqs[p->cpu].idle)
		cpumask_set(&m->idle_mask, p->cpu, true);
	cpumask_set(&m->idle_mask, cpu, false);
}

void replay_start(struct machine *m, u64 now_ns, const struct strand_call *call)
{
	struct task_struct *p = call->task;
	s32 cpu = call->on;

	machine_use(m, now_ns, call->cpu);
	if (call->path == STRAND_SELECT)
		p->cpu = cpu;
	if (call->path != STRAND_ENQUEUE) {
		strand_start(m, now_ns, call);
		return;
	}
	if (p->scx.flags & SCX_TASK_QUEUED)
		return;
	if (p->cpu != cpu && p->scx.ddsp_dsq_id == SCX_DSQ_LOCAL)
		replay_claim(m, p, cpu);
	p->cpu = cpu;
	p->__state = 0;
	strand_start(m, now_ns, call);
}

void replay_dequeue(struct machine *m, u64 now_ns, struct task_struct *p, bool sleeps)
{
	machine_use(m, now_ns, p->cpu);
	if (!(p->scx.flags & SCX_TASK_QUEUED))
		return;
	p->__state = sleeps ? TASK_INTERRUPTIBLE : 0;
	dequeue_task(m, p, 0);
	if (m->rqs[p->cpu].curr != p)
		return;
	set_curr(m, p->cpu, NULL);
	m->rqs[p->cpu].blocked = p;
}

/* Takes @p from wherever it is, as far as a run queue is concerned. */
static void replay_fetch(struct machine *m, struct task_struct *p)
{
	struct cpu_rq *rq = &m->rqs[p->cpu];

	if (rq->curr == p) {
		p->scx.slice = 0;
		put_prev(m, p);
		set_idle(m, p->cpu, true);
	} else if (!(p->scx.flags & SCX_TASK_QUEUED)) {
		enqueue_task(m, p, 0);
	}
}

void replay_force(struct machine *m, u64 now_ns, s32 cpu, struct task_struct *p)
{
	struct cpu_rq *rq = &m->rqs[cpu];

	machine_use(m, now_ns, cpu);
	if (rq->curr && rq->curr != p) {
		rq->curr->scx.slice = 0;
		put_prev(m, rq->curr);
	}
	if (!p) {
		set_idle(m, cpu, true);
		return;
	}
	if (rq->curr == p)
		return;
	replay_fetch(m, p);
	m->this_cpu = cpu;
	if (rq->idle)
		set_idle(m, cpu, false);
	p->cpu = cpu;
	p->scx.slice = scheduler_slice_ns();
	set_next(m, cpu, p);
}

static void change_nothing(struct machine *m, struct task_struct *p, const void *to)
{
	(void)m, (void)p, (void)to;
}

void replay_requeue(struct machine *m, u64 now_ns, struct task_struct *p)
{
	machine_use(m, now_ns, p->cpu);
	change_task(m, p, change_nothing, NULL);
}

void replay_exit(struct machine *m, u64 now_ns, struct task_struct *p)
{
	struct scx_exit_task_args args = {};

	machine_use(m, now_ns, p->cpu);
	p->flags |= PF_EXITING;
	replay_dequeue(m, now_ns, p, true);
	m->ops->disable(p);
	m->ops->exit_task(p, &args);
	strands_forget(m, p);
}

/* The task disabled migration itself. The count of what callbacks do is in the low bits. */
#define STAYS 0x8000

void replay_set_stays(struct task_struct *p, bool stays)
{
	p->migration_disabled =
		stays ? p->migration_disabled | STAYS : p->migration_disabled & ~STAYS;
}

/*
 * migrate_disable_switch() and migrate_enable(): the mask in effect changes, and not the
 * configured one, so nr_cpus_allowed stays.
 */
static void change_cpus_in_effect(struct machine *m, struct task_struct *p, const void *allowed)
{
	p->cpus_in_effect = *(const struct cpumask *)allowed;
	p->cpus_ptr = memcmp(allowed, &p->cpus_mask, sizeof(p->cpus_mask)) ? &p->cpus_in_effect
									   : &p->cpus_mask;
	m->ops->set_cpumask(p, p->cpus_ptr);
}

void replay_change_cpus(struct machine *m, u64 now_ns, struct task_struct *p,
			const struct cpumask *allowed)
{
	bool stays = p->migration_disabled & STAYS;

	machine_use(m, now_ns, p->cpu);
	change_task(m, p, stays ? change_cpus_in_effect : change_cpus, allowed);
}

u64 replay_key(const struct task_struct *p)
{
	return p->scx.dsq_vtime;
}

u32 replay_nr_queued(const struct machine *m)
{
	u32 nr = 0;

	for (u32 i = 0; i < m->nr_dsqs; i++)
		nr += m->dsqs[i].nr;
	return nr;
}
