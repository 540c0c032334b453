/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who pays for what a device moves: the task that asked for it. What is moved later knows that
 * task by its id.
 */
#ifndef DRFQ_PAYER_BPF_H
#define DRFQ_PAYER_BPF_H

/* A task, and the main thread of its process. A thread id may have a new owner, but that one
 * started later. */
struct payer {
	u32 pid;
	u32 tgid;
	u64 started_ns;
	u64 main_started_ns;
};

/* A flag of struct task_struct: the kernel runs the thread for io_uring. */
#define PF_IO_WORKER 0x00000010

/*
 * Returns the task that @p moves data for. A worker of io_uring moves data for the task that
 * submitted the request. It sleeps when it has no more to do, so it would pay late, or never
 * if it ends. A thread that polls for submissions (SQPOLL) is no such worker and pays itself.
 */
static __always_inline const struct task_struct *payer_submitter(const struct task_struct *p)
{
	const struct io_worker *worker = NULL;
	const struct io_wq *wq = NULL;

	if (!(p->flags & PF_IO_WORKER) || !p->worker_private ||
	    !bpf_core_field_exists(worker->wq) || !bpf_core_field_exists(wq->task))
		return p;
	worker = bpf_core_cast(p->worker_private, struct io_worker);
	return worker->wq->task;
}

/* Makes the task that @p moves data for the payer. */
static __always_inline void payer_set(struct payer *payer, const struct task_struct *p)
{
	p = payer_submitter(p);
	payer->pid = p->pid;
	payer->tgid = p->tgid;
	payer->started_ns = p->start_time;
	payer->main_started_ns = p->group_leader->start_time;
}

/* Returns whether @p moves data for the payer. */
static __always_inline bool payer_is(const struct payer *payer, const struct task_struct *p)
{
	p = payer_submitter(p);
	return payer->pid == p->pid && payer->started_ns == p->start_time;
}

/* Adds @bytes to what devices have moved for the task, which pays at its next wake-up, tick or
 * switch. Less than 0: a device refused so many that were added. */
static __always_inline void payer_add(struct task_ctx *t, s64 bytes)
{
	if (bytes < 0)
		__sync_fetch_and_add(&t->dma_refused_bytes, -bytes);
	else
		__sync_fetch_and_add(&t->dma_pending_bytes, bytes);
}

/* Adds @bytes to what devices have moved for @p. Kernel threads move data for other tasks and never
 * pay. Returns whether @p does. */
static bool payer_charge_task(struct task_struct *p, s64 bytes)
{
	struct task_ctx *t = NULL;

	if (!task_is_kthread(p))
		t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (t)
		payer_add(t, bytes);
	return t;
}

/* Does the same for the task @pid that started at @started_ns, if that lives. */
static bool payer_charge_living(u32 pid, u64 started_ns, s64 bytes)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	bool pays = false;

	if (!p)
		return false;
	if (p->start_time == started_ns && !p->exit_state)
		pays = payer_charge_task(p, bytes);
	bpf_task_release(p);
	return pays;
}

/* Charges @bytes to @payer, or to its process if that task has ended. Returns whether one pays. */
static bool payer_charge(const struct payer *payer, s64 bytes)
{
	return payer_charge_living(payer->pid, payer->started_ns, bytes) ||
	       payer_charge_living(payer->tgid, payer->main_started_ns, bytes);
}

/* Charges @bytes that @p moves. Returns whether a task pays. */
static bool payer_charge_mover(struct task_struct *p, s64 bytes)
{
	struct payer payer;

	if (payer_submitter(p) == p)
		return payer_charge_task(p, bytes);
	payer_set(&payer, p);
	return payer_charge(&payer, bytes);
}

#endif /* DRFQ_PAYER_BPF_H */
