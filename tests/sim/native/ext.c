/* SPDX-License-Identifier: GPL-2.0-only */
/* The paths of kernel/sched/core.c and ext.c that call the scheduler. */
#include <stdlib.h>

#include "model.h"

void load_globals(struct machine *m)
{
	if (machine_in_use == m)
		return;
	if (machine_in_use)
		scheduler_image_save(machine_in_use->image);
	scheduler_image_load(m->image);
	machine_in_use = m;
}

void machine_use(struct machine *m, u64 now_ns, s32 cpu)
{
	load_globals(m);
	m->now_ns = now_ns;
	m->this_cpu = cpu;
	count_entry(m, COUNT_OTHER);
}

void load_scheduler(struct machine *m, const struct scheduler_options *options)
{
	static char *pristine;
	size_t bytes = scheduler_image_bytes();

	if (!pristine) {
		pristine = malloc(bytes);
		scheduler_image_save(pristine);
	}
	scheduler_image_load(pristine);
	scheduler_configure(options);
	if (m->ops->init())
		scx_bpf_error("ops.init failed");
}

struct machine *machine_new(const struct scheduler_options *options, u64 jiffy_ns, bool smt)
{
	struct machine *m = calloc(1, sizeof(*m));

	m->image = calloc(1, scheduler_image_bytes());
	m->jiffy_ns = jiffy_ns;
	m->smt = smt;
	m->nr_cpus = options->nr_cpus;
	m->rqs = calloc(m->nr_cpus, sizeof(*m->rqs));
	m->llc_of_cpu = calloc(m->nr_cpus, sizeof(*m->llc_of_cpu));
	m->timer_due_ns = NATIVE_NEVER;
	m->global.cpu = -1;
	for (u32 cpu = 0; cpu < m->nr_cpus; cpu++) {
		struct list_head *list = &m->rqs[cpu].kernel.scx.runnable_list;

		list->next = list->prev = list;
		m->rqs[cpu].local.cpu = (s32)cpu;
		m->rqs[cpu].idle = true;
		m->llc_of_cpu[cpu] = options->llc_of_cpu[cpu];
		cpumask_set(&m->idle_mask, (s32)cpu, true);
	}
	if (machine_in_use)
		scheduler_image_save(machine_in_use->image);
	machine_in_use = m;
	m->ops = scheduler_ops();
	load_scheduler(m, options);
	return m;
}

void machine_free(struct machine *m)
{
	if (machine_in_use == m)
		machine_in_use = NULL;
	for (u32 i = 0; i < m->nr_tasks; i++)
		machine_task_free(m->tasks[i]);
	for (u32 i = 0; i < NATIVE_MAX_ARRAYS; i++)
		free(m->arrays[i].values);
	for (u32 i = 0; i < NATIVE_SOCKETS; i++)
		free(m->sockets[i].storage);
	cgroups_free(m);
	count_free(m);
	strands_free(m);
	free(m->tasks);
	free(m->rqs);
	free(m->llc_of_cpu);
	free(m->image);
	free(m);
}

const char *machine_error(const struct machine *m)
{
	return m->error[0] ? m->error : NULL;
}

u32 machine_take_rescheds(struct machine *m, s32 *cpus)
{
	u32 nr = 0;

	for (u32 cpu = 0; cpu < m->nr_cpus; cpu++) {
		if (!m->rqs[cpu].resched)
			continue;
		m->rqs[cpu].resched = false;
		cpus[nr++] = (s32)cpu;
	}
	return nr;
}

u64 machine_timer_due_ns(const struct machine *m)
{
	return m->timer_due_ns;
}

void machine_timer_fire(struct machine *m, u64 now_ns)
{
	int key = 0;
	s32 around;

	machine_use(m, now_ns, 0);
	m->timer_due_ns = NATIVE_NEVER;
	count_entry(m, COUNT_TIMER);
	around = count_enter(m, COUNT_timer);
	m->timer->callback(NULL, &key, m->timer);
	count_leave(around);
}

void set_allowed(struct task_struct *p, const struct cpumask *allowed, u32 nr_cpus)
{
	p->cpus_mask = *allowed;
	p->cpus_ptr = &p->cpus_mask;
	p->nr_cpus_allowed = 0;
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		p->nr_cpus_allowed += cpumask_has(allowed, (s32)cpu);
}

static void remember_task(struct machine *m, struct task_struct *p)
{
	if (m->nr_tasks == m->tasks_room) {
		m->tasks_room = m->tasks_room ? 2 * m->tasks_room : 64;
		m->tasks = realloc(m->tasks, m->tasks_room * sizeof(*m->tasks));
	}
	m->tasks[m->nr_tasks++] = p;
	p->pid = p->tgid = (s32)m->nr_tasks;
}

struct task_struct *machine_task_new(struct machine *m, u64 now_ns, struct task_struct *parent,
				     const struct cpumask *allowed, s32 cpu, bool kthread)
{
	struct task_struct *p = calloc(1, sizeof(*p));
	struct scx_init_task_args args = {.fork = true};

	machine_use(m, now_ns, parent ? parent->cpu : cpu);
	remember_task(m, p);
	p->__state = TASK_NEW;
	p->scx.reset_runnable_at = true;
	p->scx.runnable_node.next = p->scx.runnable_node.prev = &p->scx.runnable_node;
	p->flags = kthread ? PF_KTHREAD : 0;
	p->prio = p->static_prio = NICE_0_PRIO;
	p->real_parent = parent;
	p->group_leader = p;
	p->start_time = now_ns;
	p->signal = &p->own_signal;
	p->cgroup = parent ? parent->cgroup : &m->root_group;
	p->cpu = cpu;
	set_allowed(p, allowed, m->nr_cpus);
	m->forking = parent ? parent : &m->outsider;
	if (m->ops->init_task(p, &args))
		scx_bpf_error("ops.init_task failed");
	m->forking = NULL;
	m->ops->enable(p);
	m->ops->set_weight(p, 100);
	return p;
}

void machine_task_free(struct task_struct *p)
{
	free(p->storage);
	free(p);
}

s32 machine_task_cpu(const struct task_struct *p)
{
	return p->cpu;
}

u32 machine_task_number(const struct task_struct *p)
{
	return (u32)p->pid - 1;
}

u64 machine_task_cpu_ns(const struct task_struct *p)
{
	return p->se.sum_exec_runtime;
}

s32 other_cpu(struct machine *m, s32 cpu)
{
	return (cpu + 1) % (s32)m->nr_cpus;
}

/* update_curr_scx(). */
void update_curr(struct machine *m, s32 cpu)
{
	struct task_struct *p = m->rqs[cpu].curr;
	u64 ran;

	/* The clocks of two CPUs may differ a little, as the kernel's do. */
	if (!p || (s64)(task_clock(m, cpu) - p->se.exec_start) <= 0)
		return;
	ran = task_clock(m, cpu) - p->se.exec_start;
	p->se.exec_start = task_clock(m, cpu);
	p->se.sum_exec_runtime += ran;
	p->scx.slice -= ran < p->scx.slice ? ran : p->scx.slice;
}

void machine_update_curr(struct machine *m, u64 now_ns, s32 cpu)
{
	machine_use(m, now_ns, cpu);
	update_curr(m, cpu);
}

u64 machine_slice_left_ns(const struct machine *m, s32 cpu)
{
	return m->rqs[cpu].curr ? m->rqs[cpu].curr->scx.slice : 0;
}

/* A task on a local DSQ preempts the idle task. */
void local_dsq_grew(struct machine *m, s32 cpu)
{
	if (!m->rqs[cpu].curr && !m->rqs[cpu].balancing && !m->rqs[cpu].putting)
		m->rqs[cpu].resched = true;
}

/* SCX_ENQ_PREEMPT of @p ends the slice of the task that runs on @cpu. */
static void preempt_curr(struct machine *m, s32 cpu, const struct task_struct *p)
{
	struct task_struct *curr = m->rqs[cpu].curr;

	if (!curr || curr == p)
		return;
	curr->scx.slice = 0;
	m->rqs[cpu].resched = true;
}

/* direct_dispatch(): puts the task where select_cpu or enqueue asked for. */
static void direct_dispatch(struct machine *m, struct task_struct *p)
{
	u64 id = p->scx.ddsp_dsq_id;
	struct dsq *dsq = id == SCX_DSQ_LOCAL ? &m->rqs[p->cpu].local : dsq_find(m, id);

	strand_wait(STRAND_INSERT, 0, 0);
	if (p->scx.ddsp_dsq_id == SCX_DSQ_INVALID)
		return;
	p->scx.ddsp_dsq_id = SCX_DSQ_INVALID;
	/* In a replay that differs from the kernel, another path may have queued it meanwhile. */
	if (p->scx.dsq)
		return;
	if (!dsq) {
		scx_bpf_error("%s[%d] dispatched to DSQ %llx, which is not there", p->comm, p->pid,
			      (unsigned long long)id);
		dsq = &m->global;
	}
	if (p->scx.ddsp_enq_flags & SCX_ENQ_PREEMPT && dsq->cpu >= 0) {
		preempt_curr(m, dsq->cpu, p);
		p->scx.ddsp_enq_flags |= SCX_ENQ_HEAD;
	}
	dsq_add(m, dsq, p, p->scx.ddsp_enq_flags, p->scx.ddsp_enq_flags & SCX_ENQ_DSQ_PRIQ);
}

/* do_enqueue_task(). */
static void do_enqueue(struct machine *m, struct task_struct *p, u64 enq_flags)
{
	if (p->scx.ddsp_dsq_id == SCX_DSQ_INVALID)
		m->ops->enqueue(p, enq_flags);
	if (p->scx.ddsp_dsq_id == SCX_DSQ_INVALID)
		scx_bpf_error("ops.enqueue left task %d nowhere", p->pid);
	direct_dispatch(m, p);
}

/* set_task_runnable(): the first of the list waits for the longest. */
static void set_runnable(struct machine *m, struct task_struct *p)
{
	struct list_head *list = &m->rqs[p->cpu].kernel.scx.runnable_list;
	struct list_head *node = &p->scx.runnable_node;

	if (p->scx.reset_runnable_at)
		p->scx.runnable_at = m->now_ns / m->jiffy_ns;
	p->scx.reset_runnable_at = false;
	node->prev = list->prev;
	node->next = list;
	list->prev->next = node;
	list->prev = node;
}

/* clr_task_runnable(). */
static void clear_runnable(struct task_struct *p)
{
	struct list_head *node = &p->scx.runnable_node;

	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = node->prev = node;
}

/* enqueue_task_scx() on the run queue of the task's CPU. */
void enqueue_task(struct machine *m, struct task_struct *p, u64 enq_flags)
{
	p->scx.flags |= SCX_TASK_QUEUED;
	set_runnable(m, p);
	p->sched_info.last_queued = m->now_ns;
	if (m->ops->runnable && !p->migrating)
		m->ops->runnable(p, enq_flags);
	do_enqueue(m, p, enq_flags);
}

/* dequeue_task_scx(). */
void dequeue_task(struct machine *m, struct task_struct *p, u64 deq_flags)
{
	bool runs = m->rqs[p->cpu].curr == p;

	if (!runs && m->ops->dequeue)
		m->ops->dequeue(p, deq_flags);
	if (runs) {
		update_curr(m, p->cpu);
		m->ops->stopping(p, false);
	}
	if (m->ops->quiescent && !p->migrating)
		m->ops->quiescent(p, deq_flags);
	p->scx.flags &= ~SCX_TASK_QUEUED;
	clear_runnable(p);
	dsq_remove(p);
}

/* wakeup_preempt(): any sched_ext task preempts the idle task, wherever it was queued. */
void wakeup_preempt(struct machine *m, s32 cpu)
{
	if (m->rqs[cpu].idle)
		m->rqs[cpu].resched = true;
}

static void wake(struct machine *m, struct task_struct *p, u64 wake_flags, u64 enq_flags)
{
	if (p->nr_cpus_allowed > 1) {
		p->cpu = m->ops->select_cpu(p, p->cpu, wake_flags);
		if (enq_flags & SCX_ENQ_WAKEUP)
			enq_flags |= SCX_ENQ_CPU_SELECTED;
	}
	/* select_fallback_rq(): the affinity may have changed during the sleep. */
	if (!cpumask_has(p->cpus_ptr, p->cpu))
		p->cpu = (s32)bpf_cpumask_first(p->cpus_ptr);
	enqueue_task(m, p, enq_flags);
	p->__state = 0;
	wakeup_preempt(m, p->cpu);
}

void machine_wake_new(struct machine *m, u64 now_ns, struct task_struct *p)
{
	machine_use(m, now_ns, p->real_parent ? p->real_parent->cpu : p->cpu);
	count_entry(m, COUNT_WAKE);
	p->__state = 0;
	wake(m, p, SCX_WAKE_FORK, 0);
}

void machine_wake(struct machine *m, u64 now_ns, struct task_struct *p, s32 waker_cpu, bool sync)
{
	machine_use(m, now_ns, waker_cpu < 0 ? p->cpu : waker_cpu);
	count_entry(m, COUNT_WAKE);
	p->__state = TASK_WAKING;
	m->preempt_count = waker_cpu < 0 ? SERVES_SOFTIRQ : 0;
	wake(m, p, SCX_WAKE_TTWU | (sync ? SCX_WAKE_SYNC : 0), SCX_ENQ_WAKEUP);
	m->preempt_count = 0;
}

void set_curr(struct machine *m, s32 cpu, struct task_struct *p)
{
	struct task_struct **curr = &m->rqs[cpu].curr;

	if (*curr)
		(*curr)->rcu_read_lock_nesting--;
	if (p)
		p->rcu_read_lock_nesting++;
	*curr = p;
}

static void leave_cpu(struct machine *m, s32 cpu)
{
	struct task_struct *p = m->rqs[cpu].curr;

	count_entry(m, COUNT_SWITCH);
	p->__state = TASK_INTERRUPTIBLE;
	dequeue_task(m, p, 0);
	set_curr(m, cpu, NULL);
	m->rqs[cpu].blocked = p;
}

void machine_block(struct machine *m, u64 now_ns, s32 cpu)
{
	machine_use(m, now_ns, cpu);
	leave_cpu(m, cpu);
}

void machine_exit(struct machine *m, u64 now_ns, s32 cpu)
{
	struct scx_exit_task_args args = {};
	struct task_struct *p = m->rqs[cpu].curr;

	machine_use(m, now_ns, cpu);
	p->flags |= PF_EXITING;
	p->exit_state = EXIT_ZOMBIE;
	leave_cpu(m, cpu);
	m->ops->disable(p);
	m->ops->exit_task(p, &args);
}

void machine_yield(struct machine *m, u64 now_ns, s32 cpu)
{
	machine_use(m, now_ns, cpu);
	count_entry(m, COUNT_SWITCH);
	if (m->ops->yield)
		m->ops->yield(m->rqs[cpu].curr, NULL);
	else
		m->rqs[cpu].curr->scx.slice = 0;
}

/* What ops.dispatch is told of the last task: one that has blocked, too. */
static struct task_struct *prev_of_dispatch(const struct cpu_rq *rq)
{
	struct task_struct *blocked = rq->blocked;

	if (rq->curr || !blocked || blocked->scx.flags & SCX_TASK_QUEUED)
		return rq->curr;
	return blocked;
}

/* balance_one(): whether @prev keeps the CPU. */
static bool balance(struct machine *m, s32 cpu, struct task_struct *prev)
{
	struct cpu_rq *rq = &m->rqs[cpu];

	if (prev && prev->scx.slice)
		return true;
	if (rq->local.nr || m->global.nr)
		return false;
	rq->balancing = true;
	if (!m->bypassed)
		m->ops->dispatch(cpu, prev_of_dispatch(rq));
	rq->balancing = false;
	if (prev && prev->scx.slice)
		return true;
	return prev && !rq->local.nr && !(m->ops->flags & SCX_OPS_ENQ_LAST);
}

/* put_prev_task_scx() of a task that stays runnable. */
void put_prev(struct machine *m, struct task_struct *prev)
{
	struct cpu_rq *rq = &m->rqs[prev->cpu];

	update_curr(m, prev->cpu);
	m->ops->stopping(prev, true);
	set_curr(m, prev->cpu, NULL);
	set_runnable(m, prev);
	prev->sched_info.last_queued = m->now_ns;
	rq->putting = true;
	if (prev->scx.slice)
		dsq_add(m, &rq->local, prev, SCX_ENQ_HEAD, false);
	else
		do_enqueue(m, prev, rq->local.nr || m->global.nr || rq->taken ? 0 : SCX_ENQ_LAST);
	rq->putting = false;
}

/* scx_update_idle(): the mask first, so that what is queued from then on is seen. */
void set_idle(struct machine *m, s32 cpu, bool idle)
{
	bool was = m->rqs[cpu].idle;

	strand_wait(STRAND_SET_IDLE, idle, 0);
	m->rqs[cpu].idle = idle;
	cpumask_set(&m->idle_mask, cpu, idle);
	if (was != idle && m->ops->update_idle && !m->bypassed)
		m->ops->update_idle(cpu, idle);
}

void set_next(struct machine *m, s32 cpu, struct task_struct *next)
{
	strand_wait(STRAND_SET_NEXT, 0, 0);
	dsq_remove(next);
	next->se.exec_start = task_clock(m, cpu);
	if (next->sched_info.last_queued)
		next->sched_info.run_delay += m->now_ns - next->sched_info.last_queued;
	next->sched_info.last_queued = 0;
	next->sched_info.pcount++;
	clear_runnable(next);
	next->scx.reset_runnable_at = true;
	set_curr(m, cpu, next);
	m->ops->running(next);
}

u32 reenqueue_local(struct machine *m, s32 cpu)
{
	struct dsq *local = &m->rqs[cpu].local;
	u32 nr = local->nr;

	for (u32 i = 0; i < nr; i++) {
		struct task_struct *p = local->first;

		dsq_remove(p);
		do_enqueue(m, p, SCX_ENQ_REENQ);
	}
	return nr;
}

/* put_prev_task_scx(), and switch_class() if the next task's class is higher. */
void machine_take_cpu(struct machine *m, u64 now_ns, s32 cpu)
{
	struct cpu_rq *rq = &m->rqs[cpu];

	machine_use(m, now_ns, cpu);
	rq->taken = true;
	rq->blocked = NULL;
	if (rq->curr)
		put_prev(m, rq->curr);
	if (rq->idle)
		set_idle(m, cpu, false);
	if (m->ops->cpu_release)
		m->ops->cpu_release(cpu, NULL);
}

void machine_give_cpu(struct machine *m, s32 cpu)
{
	m->rqs[cpu].taken = false;
}

/*
 * put_prev_task_scx() of a task that has blocked. Its time goes on until the next task is picked,
 * which may take long if that task comes from another run queue. ops.stopping was called before,
 * so the task's next packet is charged for it.
 */
static void put_blocked(struct machine *m, s32 cpu)
{
	struct task_struct *p = m->rqs[cpu].blocked;
	s64 ran = p ? (s64)(task_clock(m, cpu) - p->se.exec_start) : 0;

	m->rqs[cpu].blocked = NULL;
	if (ran > 0)
		p->se.sum_exec_runtime += (u64)ran;
}

struct task_struct *machine_schedule(struct machine *m, u64 now_ns, s32 cpu)
{
	struct cpu_rq *rq = &m->rqs[cpu];
	struct task_struct *prev = rq->curr, *next;

	if (rq->taken)
		return NULL;
	machine_use(m, now_ns, cpu);
	count_entry(m, COUNT_SWITCH);
	update_curr(m, cpu);
	if (balance(m, cpu, prev)) {
		strand_decide(m, prev);
		if (!prev->scx.slice)
			prev->scx.slice = SCX_SLICE_DFL;
		return prev;
	}
	if (!rq->local.nr && m->global.nr)
		scx_bpf_dsq_move_to_local(SCX_DSQ_GLOBAL, 0);
	next = rq->local.first;
	strand_decide(m, next);
	put_blocked(m, cpu);
	if (prev)
		put_prev(m, prev);
	if (!next) {
		set_idle(m, cpu, true);
		return NULL;
	}
	if (!next->scx.slice)
		next->scx.slice = SCX_SLICE_DFL;
	if (rq->idle)
		set_idle(m, cpu, false);
	set_next(m, cpu, next);
	return next;
}

/* task_tick_scx(). sched_tick_remote() runs it from another CPU. */
void machine_tick(struct machine *m, u64 now_ns, s32 from, s32 cpu)
{
	struct cpu_rq *rq = &m->rqs[cpu];

	machine_use(m, now_ns, from);
	if (!rq->curr)
		return;
	count_entry(m, COUNT_TICK);
	update_curr(m, cpu);
	if (m->ops->tick)
		m->ops->tick(rq->curr);
	if (!rq->curr->scx.slice)
		rq->resched = true;
}
