/* SPDX-License-Identifier: GPL-2.0-only */
/* Callbacks that a replay runs in parts: see strand.h. */
#include <stdlib.h>
#include <ucontext.h>

#include "model.h"
#include "strand.h"

#define STACK_BYTES (256 * 1024)

struct strand {
	ucontext_t context, caller;
	char *stack;
	struct strand_call call;
	enum strand_point point;
	u64 detail, told, otherwise;
	/* The machine's clock and CPU, as this strand has them. */
	u64 now_ns;
	s32 this_cpu;
	/* The kernel's `current` on its CPU, until the path ends; NULL: the idle task. */
	struct task_struct *current;
	/* No point stops it any more. */
	bool to_the_end;
	s64 result;
};

static s64 number_of(const struct task_struct *p)
{
	return p ? (s64)machine_task_number(p) : -1;
}

static void run_path(struct machine *m, struct strand *s)
{
	const struct strand_call *call = &s->call;
	struct task_struct *p = call->task;

	switch (call->path) {
	case STRAND_SELECT:
		p->cpu = m->ops->select_cpu(p, p->cpu, call->flags);
		s->result = p->cpu;
		break;
	case STRAND_ENQUEUE:
		enqueue_task(m, p, call->flags);
		break;
	case STRAND_SCHEDULE:
		s->result = number_of(machine_schedule(m, m->now_ns, call->cpu));
		break;
	case STRAND_TICK:
		machine_tick(m, m->now_ns, call->cpu, call->cpu);
		break;
	case STRAND_UPDATE_IDLE:
		set_idle(m, call->cpu, call->flags);
		break;
	}
}

static void strand_main(void)
{
	struct machine *m = machine_in_use;
	struct strand *s = m->strand;

	run_path(m, s);
	s->point = STRAND_DONE;
}

static void strand_run(struct machine *m, struct strand *s)
{
	load_globals(m);
	m->now_ns = s->now_ns;
	m->this_cpu = s->this_cpu;
	m->strand = s;
	swapcontext(&s->caller, &s->context);
	m->strand = NULL;
}

void strand_start(struct machine *m, u64 now_ns, const struct strand_call *call)
{
	const struct cpu_rq *rq = &m->rqs[call->cpu];
	struct strand *s;

	if (!m->strands)
		m->strands = calloc(m->nr_cpus, sizeof(*m->strands));
	s = &m->strands[call->cpu];
	if (!s->stack)
		s->stack = malloc(STACK_BYTES);
	getcontext(&s->context);
	s->context.uc_stack.ss_sp = s->stack;
	s->context.uc_stack.ss_size = STACK_BYTES;
	s->context.uc_link = &s->caller;
	s->call = *call;
	s->now_ns = now_ns;
	s->this_cpu = call->cpu;
	s->current = rq->curr ? rq->curr : rq->blocked;
	s->to_the_end = false;
	s->result = -1;
	makecontext(&s->context, strand_main, 0);
	strand_run(m, s);
}

/* A BPF program disables migration of the task that runs, also while that is switched out. */
static void disable_migration(const struct strand *s, s32 by)
{
	bool in_callback = s->point >= STRAND_LOOK && s->point <= STRAND_DRAW;

	if (in_callback && s->current)
		s->current->migration_disabled += by;
}

u64 strand_wait(enum strand_point point, u64 detail, u64 otherwise)
{
	struct machine *m = machine_in_use;
	struct strand *s = m->strand;

	if (!s || s->to_the_end)
		return otherwise;
	s->point = point;
	s->detail = detail;
	s->otherwise = otherwise;
	s->now_ns = m->now_ns;
	s->this_cpu = m->this_cpu;
	disable_migration(s, 1);
	swapcontext(&s->context, &s->caller);
	disable_migration(s, -1);
	return s->told;
}

void strand_decide(struct machine *m, const struct task_struct *next)
{
	if (!m->strand)
		return;
	m->strand->result = number_of(next);
	strand_wait(STRAND_DECIDED, 0, 0);
}

u32 strand_point_of(const struct machine *m, s32 cpu)
{
	return m->strands ? m->strands[cpu].point : STRAND_DONE;
}

u64 strand_detail(const struct machine *m, s32 cpu)
{
	return m->strands[cpu].detail;
}

void strand_resume(struct machine *m, s32 cpu, const u64 *told)
{
	struct strand *s = &m->strands[cpu];

	if (s->point == STRAND_DONE)
		return;
	s->told = told ? *told : s->otherwise;
	strand_run(m, s);
}

void strand_finish(struct machine *m, s32 cpu)
{
	m->strands[cpu].to_the_end = true;
	strand_resume(m, cpu, NULL);
}

s64 strand_result(const struct machine *m, s32 cpu)
{
	return m->strands[cpu].result;
}

void strand_set_now(struct machine *m, s32 cpu, u64 now_ns)
{
	if (strand_point_of(m, cpu) != STRAND_DONE)
		m->strands[cpu].now_ns = now_ns;
}

void strands_forget(struct machine *m, const struct task_struct *p)
{
	for (u32 cpu = 0; m->strands && cpu < m->nr_cpus; cpu++)
		if (m->strands[cpu].current == p)
			m->strands[cpu].current = NULL;
}

void strands_free(struct machine *m)
{
	for (u32 cpu = 0; m->strands && cpu < m->nr_cpus; cpu++)
		free(m->strands[cpu].stack);
	free(m->strands);
}
