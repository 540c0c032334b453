/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a new task inherits and an ending one leaves.
 *
 * By 4.8 a new flow starts at V, which is right for one that arrives from
 * elsewhere. A task that is forked does not: if children started at V, a chain
 * of short tasks (a shell loop, make) would be new at every step, what each used
 * would end with it, and V, held by them, would hardly move. Two hogs beside
 * such a chain of 1 ms got 0.1 % of a CPU in the simulator, in place of 33 %.
 *
 * So a child starts no earlier than its parent has got to, and what it got to is
 * passed on to its parent when it ends: a family that runs one after the other is
 * one flow, and one that runs in parallel is as many flows as run.
 */
#ifndef DRFQ_FORK_BPF_H
#define DRFQ_FORK_BPF_H

/* S of the task that runs here, charged up to now, or V if that is later; its
 * account is not touched, because it may be charged meanwhile. */
static u64 fork_start_vtime(void)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, parent, 0, 0);
	u64 v = vtime_local(cpu), run_ns;
	struct drfq_flow flow;

	if (!t || slot->pid != (u32)parent->pid)
		return v;
	run_ns = scx_bpf_now() - slot->charged_at_ns;
	/* More than a tick cannot be uncharged; a clock may be. */
	if (run_ns > 2 * slice_ns)
		run_ns = 2 * slice_ns;
	flow = t->flow;
	flow_charge(&flow, run_ns, 0);
	return drfq_later(v, drfq_start(&flow));
}

/* @p, whose account is @t, has ended: its heir is the rest of its process, or
 * its parent. The cap keeps a very low weight from delaying those. */
static void fork_return_vtime(struct task_struct *p, struct task_ctx *t)
{
	struct drfq_flow flow = t->flow;
	struct task_struct *heir;
	struct task_ctx *h;
	u64 start;

	flow_cap(&flow);
	start = drfq_start(&flow);
	bpf_rcu_read_lock();
	heir = p->pid == p->tgid ? p->real_parent : p->group_leader;
	h = heir ? bpf_task_storage_get(&task_ctxs, heir, 0, 0) : NULL;
	/* A charge of the heir at this moment may undo this: one child is free. */
	if (h && drfq_before(h->flow.cpu_vt, start))
		h->flow.cpu_vt = start;
	bpf_rcu_read_unlock();
}

#endif /* DRFQ_FORK_BPF_H */
