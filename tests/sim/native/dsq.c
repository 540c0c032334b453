/* SPDX-License-Identifier: GPL-2.0-only */
/* Dispatch queues: the DSQ functions and kfuncs of kernel/sched/ext.c. */
#include "model.h"

static bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

struct dsq *dsq_find(struct machine *m, u64 id)
{
	if (id == SCX_DSQ_GLOBAL)
		return &m->global;
	for (u32 i = 0; i < m->nr_dsqs; i++)
		if (m->dsqs[i].id == id)
			return &m->dsqs[i];
	return NULL;
}

static void link_after(struct dsq *dsq, struct task_struct *p, struct task_struct *after)
{
	struct task_struct *next = after ? after->scx.dsq_next : dsq->first;

	p->scx.dsq_prev = after;
	p->scx.dsq_next = next;
	*(after ? &after->scx.dsq_next : &dsq->first) = p;
	*(next ? &next->scx.dsq_prev : &dsq->last) = p;
}

/* Equal virtual times leave in the order in which they came. */
void dsq_add(struct machine *m, struct dsq *dsq, struct task_struct *p, u64 enq_flags,
	     bool by_vtime)
{
	struct task_struct *after = dsq->last;

	if (by_vtime) {
		while (after && vtime_before(p->scx.dsq_vtime, after->scx.dsq_vtime))
			after = after->scx.dsq_prev;
		/* The kernel inserts into a red-black tree. */
		count_kernel_steps(dsq->nr ? 32 - (u32)__builtin_clz(dsq->nr) : 0);
	} else if (enq_flags & SCX_ENQ_HEAD) {
		after = NULL;
	}
	link_after(dsq, p, after);
	dsq->nr++;
	p->scx.dsq = dsq;
	p->scx.dsq_seq = ++dsq->seq;
	if (dsq->cpu >= 0)
		local_dsq_grew(m, dsq->cpu);
}

void dsq_remove(struct task_struct *p)
{
	struct dsq *dsq = p->scx.dsq;

	if (!dsq) {
		/* A strand may still be about to insert it. */
		p->scx.ddsp_dsq_id = SCX_DSQ_INVALID;
		return;
	}
	*(p->scx.dsq_prev ? &p->scx.dsq_prev->scx.dsq_next : &dsq->first) = p->scx.dsq_next;
	*(p->scx.dsq_next ? &p->scx.dsq_next->scx.dsq_prev : &dsq->last) = p->scx.dsq_prev;
	p->scx.dsq_next = p->scx.dsq_prev = NULL;
	p->scx.dsq = NULL;
	dsq->nr--;
}

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)
{
	struct machine *m = machine_in_use;

	(void)node;
	if (dsq_find(m, dsq_id))
		return -EEXIST;
	if (m->nr_dsqs == NATIVE_MAX_DSQS)
		return -ENOMEM;
	m->dsqs[m->nr_dsqs++] = (struct dsq){.id = dsq_id, .cpu = -1};
	return 0;
}

s32 scx_bpf_dsq_nr_queued(u64 dsq_id)
{
	struct machine *m = machine_in_use;
	struct dsq *dsq;

	if (dsq_id == SCX_DSQ_LOCAL)
		dsq = &m->rqs[m->this_cpu].local;
	else if ((dsq_id & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON)
		dsq = &m->rqs[(u32)dsq_id].local;
	else
		dsq = dsq_find(m, dsq_id);
	return dsq ? (s32)dsq->nr : -ENOENT;
}

/* From ops.select_cpu and ops.enqueue an insertion takes effect when the callback has returned. */
static void insert_later(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	p->scx.slice = slice ? slice : 1;
	p->scx.ddsp_dsq_id = dsq_id;
	p->scx.ddsp_enq_flags = enq_flags;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	insert_later(p, dsq_id, slice, enq_flags & ~SCX_ENQ_DSQ_PRIQ);
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
			      u64 enq_flags)
{
	p->scx.dsq_vtime = vtime;
	insert_later(p, dsq_id, slice, enq_flags | SCX_ENQ_DSQ_PRIQ);
}

/* task_can_run_on_remote_rq(), for the dispatching CPU. */
static bool can_move_here(const struct machine *m, const struct task_struct *p)
{
	return cpumask_has(p->cpus_ptr, m->this_cpu) &&
	       (!p->migration_disabled || p->cpu == m->this_cpu);
}

/* consume_dispatch_q(): the first task that may run on the dispatching CPU. */
bool scx_bpf_dsq_move_to_local(u64 dsq_id, u64 enq_flags)
{
	struct machine *m = machine_in_use;
	struct dsq *dsq = dsq_find(m, dsq_id);
	bool taken = false;

	(void)enq_flags;
	strand_wait(STRAND_BEGIN, 0, 0);
	if (!dsq) {
		scx_bpf_error("no DSQ %llu", (unsigned long long)dsq_id);
		return false;
	}
	for (struct task_struct *p = dsq->first; p; p = p->scx.dsq_next) {
		count_kernel_steps(1);
		if (!can_move_here(m, p))
			continue;
		dsq_remove(p);
		p->cpu = m->this_cpu;
		dsq_add(m, &m->rqs[m->this_cpu].local, p, 0, false);
		taken = true;
		break;
	}
	/* The task has left the queue before its run queue is locked, which may take long. */
	strand_wait(STRAND_TAKE, 0, 0);
	return taken;
}

struct task_struct *native_dsq_peek(u64 dsq_id)
{
	struct dsq *dsq = dsq_find(machine_in_use, dsq_id);

	strand_wait(STRAND_LOOK, dsq_id, 0);
	return dsq ? dsq->first : NULL;
}

/* What is queued after the iterator was made is not visited. */
void native_iter_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id)
{
	struct dsq *dsq = dsq_find(machine_in_use, dsq_id);

	strand_wait(STRAND_LOOK, dsq_id, 0);
	*it = (struct bpf_iter_scx_dsq){.dsq = dsq};
	if (!dsq)
		return;
	it->next = dsq->first;
	it->last_seq = dsq->seq;
}

/* The first task of an iterator's DSQ that is not before the iterator's place. */
static struct task_struct *first_after(const struct bpf_iter_scx_dsq *it)
{
	struct task_struct *p = it->dsq->first;

	while (p && vtime_before(p->scx.dsq_vtime, it->at_vtime))
		p = p->scx.dsq_next;
	return p;
}

struct task_struct *native_iter_dsq_next(struct bpf_iter_scx_dsq *it)
{
	struct task_struct *p = it->next;

	/* Another CPU may have taken it meanwhile. */
	if (p && p->scx.dsq != it->dsq)
		p = first_after(it);
	while (p && p->scx.dsq_seq > it->last_seq)
		p = p->scx.dsq_next;
	it->next = p ? p->scx.dsq_next : NULL;
	if (p)
		it->at_vtime = p->scx.dsq_vtime;
	if (p)
		count_list_step();
	return p;
}

void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	it->slice = slice;
	it->slice_set = true;
}

void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	it->vtime = vtime;
	it->vtime_set = true;
}

static bool move(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct dsq *to, u64 enq_flags,
		 bool by_vtime)
{
	if (!to || p->scx.dsq != it->dsq || p->scx.dsq_seq > it->last_seq)
		return false;
	dsq_remove(p);
	if (it->vtime_set)
		p->scx.dsq_vtime = it->vtime;
	it->vtime_set = false;
	if (it->slice_set)
		p->scx.slice = it->slice;
	it->slice_set = false;
	dsq_add(machine_in_use, to, p, enq_flags, by_vtime);
	return true;
}

/* To the local DSQ of the dispatching CPU. */
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	struct machine *m = machine_in_use;
	bool taken;

	strand_wait(STRAND_BEGIN, 0, 0);
	/* The task leaves the queue once its run queue is locked, as this CPU's is already. */
	if (p->cpu != m->this_cpu)
		strand_wait(STRAND_UNLINK, 0, 0);
	taken = dsq_id == SCX_DSQ_LOCAL && can_move_here(m, p) &&
		move(it, p, &m->rqs[m->this_cpu].local, enq_flags, false);
	if (taken)
		p->cpu = m->this_cpu;
	strand_wait(STRAND_TAKE, 0, 0);
	return taken;
}

bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags)
{
	return move(it, p, dsq_find(machine_in_use, dsq_id), enq_flags, true);
}
