/* SPDX-License-Identifier: GPL-2.0-only */
/* Changes of a task from outside: affinity, nice, cgroup (kernel/sched/core.c and syscalls.c). */
#include "model.h"

/* The kernel's signal->flags. */
#define SIGNAL_GROUP_EXIT 4

void restore_running(struct machine *m, struct task_struct *p)
{
	p->scx.flags |= SCX_TASK_QUEUED;
	p->scx.runnable_at = m->now_ns / m->jiffy_ns;
	if (m->ops->runnable)
		m->ops->runnable(p, 0);
	p->se.exec_start = task_clock(m, p->cpu);
	m->ops->running(p);
}

/* Runs @change between a dequeue and a restore, as sched_change does (do_set_cpus_allowed(),
 * set_user_nice()). A running task is stopped and started from the caller's CPU. It
 * is restored to where it runs, without ops.enqueue. */
void change_task(struct machine *m, struct task_struct *p, task_change *change, const void *to)
{
	bool queued = p->scx.flags & SCX_TASK_QUEUED, runs = m->rqs[p->cpu].curr == p;

	if (queued)
		dequeue_task(m, p, 0);
	change(m, p, to);
	if (!queued)
		return;
	if (!runs) {
		enqueue_task(m, p, 0);
		return;
	}
	restore_running(m, p);
}

void change_cpus(struct machine *m, struct task_struct *p, const void *allowed)
{
	set_allowed(p, allowed, m->nr_cpus);
	if (m->ops->set_cpumask)
		m->ops->set_cpumask(p, p->cpus_ptr);
}

/* cpumask_any_and_distribute(): some CPU that the task may use, here the last one. */
static s32 any_allowed(const struct machine *m, const struct task_struct *p)
{
	s32 cpu = (s32)m->nr_cpus - 1;

	while (cpu > 0 && !cpumask_has(p->cpus_ptr, cpu))
		cpu--;
	return cpu;
}

/* The stopper takes the task's CPU and moves the task to one that it may use. */
static void move_running(struct machine *m, struct task_struct *p)
{
	s32 from = p->cpu;

	m->this_cpu = from;
	update_curr(m, from);
	m->ops->stopping(p, true);
	set_curr(m, from, NULL);
	m->rqs[from].resched = true;
	p->cpu = any_allowed(m, p);
	p->migrating = true;
	enqueue_task(m, p, 0);
	p->migrating = false;
	wakeup_preempt(m, p->cpu);
}

/* switch_class() sees a task of ours that is put, and no idle task (kernels before 6.19). */
void machine_take_idle_cpu(struct machine *m, u64 now_ns, s32 cpu)
{
	machine_use(m, now_ns, cpu);
	m->rqs[cpu].taken = true;
	set_idle(m, cpu, false);
}

void machine_switch_above(struct machine *m, u64 now_ns, s32 cpu)
{
	machine_use(m, now_ns, cpu);
	scheduler_switch_above();
}

void machine_set_affinity(struct machine *m, u64 now_ns, struct task_struct *p,
			  const struct cpumask *allowed)
{
	s32 cpu = p->cpu;

	machine_use(m, now_ns, cpu);
	change_task(m, p, change_cpus, allowed);
	if (cpumask_has(p->cpus_ptr, cpu) || !(p->scx.flags & SCX_TASK_QUEUED))
		return;
	if (m->rqs[cpu].curr == p) {
		move_running(m, p);
		return;
	}
	p->migrating = true;
	dequeue_task(m, p, 0);
	p->cpu = any_allowed(m, p);
	enqueue_task(m, p, 0);
	p->migrating = false;
	wakeup_preempt(m, p->cpu);
}

void change_nice(struct machine *m, struct task_struct *p, const void *nice)
{
	p->weight = 0;
	p->prio = p->static_prio = NICE_0_PRIO + *(const s32 *)nice;
	m->ops->set_weight(p, 100);
}

void machine_renice(struct machine *m, u64 now_ns, struct task_struct *p, s32 nice)
{
	machine_use(m, now_ns, other_cpu(m, p->cpu));
	change_task(m, p, change_nice, &nice);
}

void machine_leave_class(struct machine *m, u64 now_ns, struct task_struct *p)
{
	machine_use(m, now_ns, other_cpu(m, p->cpu));
	m->ops->disable(p);
	p->__state = 0;
}

void machine_join_class(struct machine *m, u64 now_ns, struct task_struct *p)
{
	machine_use(m, now_ns, other_cpu(m, p->cpu));
	p->__state = TASK_INTERRUPTIBLE;
	m->ops->enable(p);
	m->ops->set_weight(p, 100);
}

void machine_reap(struct task_struct *p)
{
	p->flags |= PF_EXITING;
	p->exit_state = EXIT_DEAD;
}

void machine_set_about_to_sleep(struct task_struct *p, bool sleeps)
{
	p->__state = sleeps ? TASK_INTERRUPTIBLE : 0;
}

static void change_rcu_nesting(struct machine *m, struct task_struct *p, const void *nesting)
{
	p->rcu_read_lock_nesting = *(const s32 *)nesting + (m->rqs[p->cpu].curr == p);
}

/* A task that waits is queued again, as if it had been preempted in the section. */
void machine_set_rcu_nesting(struct machine *m, struct task_struct *p, s32 nesting)
{
	if (m->rqs[p->cpu].curr == p) {
		change_rcu_nesting(m, p, &nesting);
		return;
	}
	machine_use(m, m->now_ns, other_cpu(m, p->cpu));
	change_task(m, p, change_rcu_nesting, &nesting);
}

/* complete_signal() of SIGKILL, which does not queue a runnable task again. */
void machine_kill(struct task_struct *p)
{
	p->signal->flags |= SIGNAL_GROUP_EXIT;
}

void change_cgroup(struct machine *m, struct task_struct *p, const void *to)
{
	struct cgroup *from = p->cgroup;

	p->cgroup = (struct cgroup *)to;
	m->ops->cgroup_move(p, from, p->cgroup);
}

/* sched_move_task(), on the CPU of the process that writes cgroup.procs. */
void machine_cgroup_move(struct machine *m, u64 now_ns, struct task_struct *p, struct cgroup *to)
{
	machine_use(m, now_ns, other_cpu(m, p->cpu));
	change_task(m, p, change_cgroup, to ? to : &m->root_group);
}

void machine_adopt_running(struct machine *m, u64 now_ns, struct task_struct *p, s32 cpu)
{
	machine_use(m, now_ns, other_cpu(m, cpu));
	p->cpu = cpu;
	p->se.exec_start = task_clock(m, cpu);
	p->scx.flags |= SCX_TASK_QUEUED;
	p->scx.slice = SCX_SLICE_DFL;
	p->scx.runnable_at = m->now_ns / m->jiffy_ns;
	set_curr(m, cpu, p);
	m->rqs[cpu].idle = false;
	cpumask_set(&m->idle_mask, cpu, false);
	/* ops.enable, which was called when it was made, would have found it running. */
	p->__state = 0;
	m->ops->set_weight(p, 100);
	if (m->ops->runnable)
		m->ops->runnable(p, 0);
	m->ops->running(p);
}
