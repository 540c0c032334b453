/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests give to a machine and see of it, beside what the kernel does. */
#include "model.h"

void machine_count_traffic(struct machine *m, s32 cpu, u64 bytes)
{
	m->rqs[cpu].traffic += bytes;
}

void machine_count_writes(struct machine *m, s32 cpu, u64 bytes)
{
	m->rqs[cpu].writes += bytes;
}

void machine_counter_dies(struct machine *m, s32 cpu)
{
	m->rqs[cpu].counter_dead = true;
}

void machine_counter_opens(struct machine *m, u64 now_ns, s32 cpu)
{
	m->rqs[cpu].counter_dead = false;
	m->rqs[cpu].counter_from = m->rqs[cpu].traffic;
	m->rqs[cpu].counter_opened_ns = now_ns;
	m->rqs[cpu].counter_waited_ns = 0;
}

void machine_counter_waits(struct machine *m, s32 cpu, u64 ns)
{
	m->rqs[cpu].counter_waited_ns += ns;
}

void machine_add_dma(struct machine *m, struct task_struct *p, u64 bytes)
{
	load_globals(m);
	scheduler_task_add_traffic(p, bytes, false);
}

void machine_add_counted(struct machine *m, struct task_struct *p, u64 bytes)
{
	load_globals(m);
	scheduler_task_add_traffic(p, bytes, true);
}

void machine_set_agent(struct machine *m, const struct task_struct *p)
{
	load_globals(m);
	scheduler_set_agent(p);
}

void machine_set_agent_stats(struct machine *m, const struct task_struct *p)
{
	load_globals(m);
	scheduler_set_agent_stats(p);
}

void machine_set_weight(struct machine *m, struct task_struct *p, u32 weight)
{
	load_globals(m);
	p->weight = weight;
	scheduler_task_set_weight(p, weight);
}

u64 machine_v_ns(struct machine *m)
{
	load_globals(m);
	return scheduler_v_ns();
}

u64 machine_bus_v_ns(struct machine *m)
{
	load_globals(m);
	return scheduler_bus_v_ns();
}

u64 machine_register_vtime(struct machine *m, s32 cpu)
{
	load_globals(m);
	return scheduler_register_vtime(cpu);
}

u64 machine_slot_vtime_ns(struct machine *m, s32 cpu)
{
	load_globals(m);
	return scheduler_slot_vtime_ns(cpu);
}

u64 machine_event_count(struct machine *m, const char *name)
{
	load_globals(m);
	return scheduler_event_count_by_name(name, m->past_events);
}

u64 machine_task_wait_ns(struct machine *m, u64 now_ns, struct task_struct *p)
{
	struct drfq_task_stat stat = {};

	machine_use(m, now_ns, 0);
	scheduler_task_stat(p, &stat);
	return stat.wait_ns;
}

void machine_task_view(struct machine *m, struct task_struct *p, struct scheduler_task *view)
{
	load_globals(m);
	scheduler_task_view(p, view);
}

s32 machine_miscounted_urgent(struct machine *m)
{
	u32 counted[DRFQ_MAX_CPUS];

	load_globals(m);
	memset(counted, 0, m->nr_cpus * sizeof(*counted));
	for (u32 i = 0; i < m->nr_tasks; i++) {
		struct task_struct *p = m->tasks[i];
		s32 cpu = scheduler_task_urgent_cpu(p);

		if (cpu >= 0)
			counted[cpu]++;
		if (cpu != p->cpu && scheduler_task_is_urgent(p) && machine_task_place(m, p) == 1)
			return p->cpu;
	}
	for (s32 cpu = 0; cpu < (s32)m->nr_cpus; cpu++)
		if (counted[cpu] != scheduler_urgent_waiting(cpu))
			return cpu;
	return -1;
}

s32 machine_task_queue(const struct machine *m, const struct task_struct *p)
{
	u64 id = p->scx.dsq ? p->scx.dsq->id : 0;

	if (id < DRFQ_DSQ_LLC || p->scx.dsq->cpu >= 0)
		return -1;
	if (id >= DRFQ_DSQ_CPU)
		return (s32)scheduler_queue_of_cpu((s32)(id - DRFQ_DSQ_CPU));
	return (s32)(id & (DRFQ_MAX_LLCS - 1));
}

u32 machine_task_place(const struct machine *m, const struct task_struct *p)
{
	if (m->rqs[p->cpu].curr == p)
		return 4;
	if (!p->scx.dsq)
		return 0;
	if (p->scx.dsq->cpu >= 0)
		return 3;
	if (p->scx.dsq->id == DRFQ_DSQ_HELD)
		return 2;
	return p->scx.dsq->id == DRFQ_DSQ_THROTTLED ? 5 : 1;
}

/* Whoever has claimed it: a CPU that is claimed and not woken idles on. */
bool machine_cpu_is_idle(const struct machine *m, s32 cpu)
{
	return m->rqs[cpu].idle;
}

u32 machine_nr_held(const struct machine *m)
{
	for (u32 i = 0; i < m->nr_dsqs; i++)
		if (m->dsqs[i].id == DRFQ_DSQ_HELD)
			return m->dsqs[i].nr;
	return 0;
}

bool machine_any_cpu_is_idle(const struct machine *m)
{
	for (u32 i = 0; i < m->nr_cpus; i++)
		if (m->rqs[i].idle)
			return true;
	return false;
}

void machine_test_place(struct machine *m, struct task_struct *p, u64 dsq_id, u64 vtime)
{
	load_globals(m);
	dsq_remove(p);
	p->scx.dsq_vtime = vtime;
	dsq_add(m, dsq_find(m, dsq_id), p, 0, true);
}

u64 machine_test_choice(struct machine *m, s32 cpu)
{
	machine_use(m, m->now_ns, cpu);
	return scheduler_queue_choice(cpu);
}

void machine_test_run(struct machine *m, struct task_struct *p, s32 cpu, u64 vtime)
{
	p->cpu = cpu;
	machine_use(m, m->now_ns, cpu);
	dsq_remove(p);
	p->scx.dsq_vtime = vtime;
	m->ops->running(p);
}
