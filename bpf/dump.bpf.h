/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two views of the scheduler's state. The agent reads the task iterator. The kernel
 * prints the dump when it ends a scheduler after an error.
 */
#ifndef DRFQ_DUMP_BPF_H
#define DRFQ_DUMP_BPF_H

/* Returns the time since @since (ns); 0: that is 0, or this CPU's clock stands before it, which
 * another CPU has noted. */
static __always_inline u64 ns_since(u64 since)
{
	return since ? drfq_later(scx_bpf_now(), since) - since : 0;
}

/* Returns the time that @p, with account @t, waited for a quota or a pace (ns), with the
 * present wait. */
static u64 throttled_ns(const struct task_struct *p, const struct task_ctx *t)
{
	return t->throttled_ns + ns_since(throttle_waits(p) ? t->throttled_since_ns : 0);
}

/*
 * Returns the time that @p was runnable without a CPU (ns), with the present wait; 0
 * if the kernel has no schedstats.
 */
static u64 wait_ns(struct task_struct *p)
{
	if (!bpf_core_field_exists(p->sched_info.run_delay))
		return 0;
	return p->sched_info.run_delay + ns_since(p->sched_info.last_queued);
}

/* Writes one struct drfq_task_stat for each task that has an account. */
SEC("iter/task")
int drfq_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct drfq_task_stat stat = {};
	struct task_ctx *t;

	if (!p)
		return 0;
	t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (!t)
		return 0;
	stat.pid = p->pid;
	stat.tgid = p->tgid;
	stat.weight = t->flow.weight;
	stat.flags = t->flags;
	if (p->__state)
		stat.flags |= DRFQ_TASK_BLOCKED;
	if (task_is_kthread(p))
		stat.flags |= DRFQ_TASK_KTHREAD;
	if (throttle_waits(p))
		stat.flags |= DRFQ_TASK_THROTTLED;
	if (t->rule_weight)
		stat.flags |= DRFQ_TASK_RULED;
	stat.nice = p->static_prio - PRIO_OF_NICE_0;
	stat.nr_cpus_allowed = p->nr_cpus_allowed;
	stat.cpu_ns = p->se.sum_exec_runtime;
	stat.charged_ns = t->charged_ns;
	stat.wait_ns = wait_ns(p);
	stat.throttled_ns = throttled_ns(p, t);
	stat.pace = t->pace;
	stat.bytes = t->bytes;
	stat.dma_bytes = t->dma_bytes;
	stat.cpu_vt_ns = t->flow.cpu_vt;
	stat.mem_vt_ns = t->flow.mem_vt;
	stat.register_vtime = label_vtime(t);
	stat.held_ns = t->held_ns;
	stat.max_held_ns = t->max_held_ns;
	stat.at_ns = bpf_ktime_get_ns();
	stat.started_ns = p->start_time;
	if (bpf_core_field_exists(p->sched_info.pcount))
		stat.runs = p->sched_info.pcount;
	bpf_probe_read_kernel_str(stat.comm, sizeof(stat.comm), p->comm);
	bpf_seq_write(ctx->meta->seq, &stat, sizeof(stat));
	return 0;
}

void BPF_STRUCT_OPS(drfq_dump, struct scx_dump_ctx *dctx)
{
	scx_bpf_dump("V=%llu ns B=%llu ns busy=%u of %u CPUs held=%d\n", vtime_now(),
		     bus_vtime_now(), busy_cpus.value, conf.nr_cpus,
		     scx_bpf_dsq_nr_queued(DRFQ_DSQ_HELD));
}

void BPF_STRUCT_OPS(drfq_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	scx_bpf_dump("pinned tasks queued=%d\n", scx_bpf_dsq_nr_queued(DRFQ_DSQ_CPU + cpu));
	if (idle)
		return;
	scx_bpf_dump("running pid=%u S-V=%lld ns\n", slot->pid,
		     (s64)(slot->vtime_ns - vtime_now()));
}

void BPF_STRUCT_OPS(drfq_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 v = vtime_now();

	if (!t)
		return;
	scx_bpf_dump("cpu_vt-V=%lld mem_vt-V=%lld bus_vt-B=%lld ns weight=%u/%u flags=0x%x\n",
		     (s64)(t->flow.cpu_vt - v), (s64)(t->flow.mem_vt - v),
		     (s64)(t->flow.bus_vt - bus_vtime_now()), t->flow.weight, DRFQ_WEIGHT_ONE,
		     t->flags);
}

#endif /* DRFQ_DUMP_BPF_H */
