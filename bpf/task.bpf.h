/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What happens to a task's account: weights, charges, wake-ups, migration.
 */
#ifndef DRFQ_TASK_BPF_H
#define DRFQ_TASK_BPF_H

/* The kernel's sched_prio_to_weight[]. Nice 0 is 1024; each step is a factor of 1.25. */
static const u32 nice_to_weight[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,  3121,  2501,	 1991,	1586,  1277,
	1024,  820,   655,   526,   423,   335,	  272,	 215,	172,   137,
	110,   87,    70,    56,    45,	   36,	  29,	 23,	18,    15,
};

#define WEIGHT_IDLEPRIO 3 /* weight of SCHED_IDLE, in the unit of the table */
#define SCHED_IDLE_POLICY 5
#define PRIO_OF_NICE_0 120

/*
 * Returns the weight of @p (1/DRFQ_WEIGHT_ONE), by the kernel's table or 4.9.
 * p->scx.weight is too coarse: it scales nice 0 to 100, so nice 19 is 46 % off.
 */
static u32 task_weight(const struct task_struct *p)
{
	s32 nice = p->static_prio - PRIO_OF_NICE_0;
	u32 row = nice + 20;

	if (weights_mode == DRFQ_WEIGHTS_THESIS)
		return drfq_weight_thesis(nice);
	if (p->policy == SCHED_IDLE_POLICY)
		return WEIGHT_IDLEPRIO * (DRFQ_WEIGHT_ONE / 1024);
	if (row >= 40)
		return DRFQ_WEIGHT_ONE;
	return nice_to_weight[row] * (DRFQ_WEIGHT_ONE / 1024);
}

/* Returns what of @bytes, which devices should move for the task, was refused. */
static __always_inline u64 task_refused_bytes(const struct task_ctx *t, u64 bytes)
{
	u64 refused = READ_ONCE(t->dma_refused_bytes);

	return refused < bytes ? refused : bytes;
}

/* Returns the traffic of devices that is not charged yet. @at_cpu: what of it the account has not
 * taken over (bytes). */
static __always_inline u64 task_dma_bytes(const struct task_ctx *t, u64 at_cpu)
{
	u64 bytes = READ_ONCE(t->dma_pending_bytes) + at_cpu;

	return bytes - task_refused_bytes(t, bytes);
}

/* Returns what devices have moved for the task that runs on the CPU of @slot, and whose account has
 * not taken that over (bytes). */
static __always_inline u64 slot_dma_pending(const struct drfq_cpu *slot)
{
	return READ_ONCE(slot->dma_pending_bytes);
}

/* The account @t of the task that runs on the CPU of @slot takes over what devices have moved for
 * it. */
static __always_inline void task_take_over_dma(struct drfq_cpu *slot, struct task_ctx *t)
{
	u64 bytes;

	if (!slot_dma_pending(slot))
		return;
	bytes = __sync_lock_test_and_set(&slot->dma_pending_bytes, 0);
	count_shared(DRFQ_EV_DMA_BYTES, bytes);
	count_shared(DRFQ_EV_DMA_CHARGED, __sync_lock_test_and_set(&slot->dma_pending_requests, 0));
	__sync_fetch_and_add(&t->dma_pending_bytes, bytes);
}

/* Another task than the one of @slot starts there. What is left of that one left the class while it
 * asked for it, and has no owner. */
static __noinline void slot_disown_dma(struct drfq_cpu *slot)
{
	u64 bytes = __sync_lock_test_and_set(&slot->dma_pending_bytes, 0);

	count_shared(DRFQ_EV_DMA_BYTES, bytes);
	count_shared(DRFQ_EV_DMA_UNATTRIBUTED_BYTES, bytes);
	count_shared(DRFQ_EV_DMA_UNATTRIBUTED,
		     __sync_lock_test_and_set(&slot->dma_pending_requests, 0));
}

/* Takes the traffic of devices that is not charged yet, and adds it to the totals. */
static __always_inline u64 task_take_dma_bytes(struct task_ctx *t)
{
	u64 bytes = t->dma_pending_bytes, refused;

	if (!bytes)
		return 0;
	__sync_fetch_and_sub(&t->dma_pending_bytes, bytes);
	refused = task_refused_bytes(t, bytes);
	if (refused)
		__sync_fetch_and_sub(&t->dma_refused_bytes, refused);
	bytes -= refused;
	t->dma_bytes += bytes;
	t->bytes += bytes;
	return bytes;
}

/* Takes the CPU traffic that a memory controller counted and that is not charged yet. */
static __always_inline u64 task_take_mc_bytes(struct task_ctx *t)
{
	u64 bytes = t->mc_pending_bytes;

	if (!bytes)
		return 0;
	__sync_fetch_and_sub(&t->mc_pending_bytes, bytes);
	t->bytes += bytes;
	return bytes;
}

/* Returns whether @t, of which @counted counts, counts in the stead of its group. */
static __always_inline bool task_counts_as_group(const struct task_ctx *t, u64 counted)
{
	return counted && counted >> 32 != t->cgroup;
}

/* Removes the task's weight from its cgroup. Each weight is removed once, from the sum
 * to which it was added, whoever does so. */
static void task_deactivate(struct task_ctx *t)
{
	u64 counted = READ_ONCE(t->counted);

	if (!counted)
		return;
	counted = __sync_lock_test_and_set(&t->counted, 0);
	if (!counted)
		return;
	if (task_counts_as_group(t, counted))
		cgroup_set_alone(t->cgroup, 0);
	cgroup_add_active(counted >> 32, -(s64)(u32)counted);
}

/* Adds the task's weight to its cgroup, unless it counts there already. Returns whether
 * it did. A task that is no longer alone in its group, or whose group has another weight, counts
 * anew. */
static bool task_activate(struct task_ctx *t)
{
	u32 cgroup = READ_ONCE(t->cgroup);
	u64 counts;

	if (!cgroup)
		return false;
	counts = cgroup_counts(cgroup, t->weight);
	if (READ_ONCE(t->counted) == counts)
		return false;
	task_deactivate(t);
	if (__sync_val_compare_and_swap(&t->counted, 0, counts))
		return false;
	if (counts >> 32 != cgroup)
		cgroup_set_alone(cgroup, t->weight);
	cgroup_add_active(counts >> 32, (u32)counts);
	/* The timer does this without the run-queue lock. Another CPU may have undone it before the
	 * group knew of it. */
	if (counts >> 32 != cgroup && READ_ONCE(t->counted) != counts)
		cgroup_set_alone(cgroup, 0);
	return true;
}

/* The kernel changes @p, which may be running: it counts where it now belongs. One that waits
 * passes through ops.enqueue again. */
static void task_reactivate(const struct task_struct *p, struct task_ctx *t)
{
	if (t->enabled && !p->__state)
		task_activate(t);
}

/* The task belongs to group @cgroup (node index) from now on. */
static void task_join(struct task_ctx *t, u32 cgroup)
{
	if (t->enabled) {
		cgroup_add_tasks(t->cgroup, -1);
		cgroup_add_tasks(cgroup, 1);
	}
	t->cgroup = cgroup;
}

/* @t counts no longer, neither in its group nor as urgent. */
static void task_leave(struct task_ctx *t)
{
	bool enabled = t->enabled;

	t->enabled = 0;
	task_deactivate(t);
	urgent_end(t);
	/* Last: a group without tasks may end, and its node belong to another one. */
	if (enabled)
		cgroup_add_tasks(t->cgroup, -1);
}

/* Brings the effective weight up to date, before a charge. */
static __always_inline void task_update_weight(struct task_ctx *t)
{
	u64 counted;

	if (!t->cgroup) {
		t->flow.weight = t->weight;
		return;
	}
	counted = READ_ONCE(t->counted);
	t->flow.weight = cgroup_effective_weight(t->cgroup, t->weight,
						 task_counts_as_group(t, counted) ? counted : 0);
}

/* Returns the weight of @p by a rule or else by its nice value (1/DRFQ_WEIGHT_ONE). */
static u32 task_own_weight(const struct task_struct *p, const struct task_ctx *t)
{
	u32 weight = READ_ONCE(t->rule_weight);

	return weight ? weight : task_weight(p);
}

/* Changes the task's own weight (1/DRFQ_WEIGHT_ONE) or its cgroup (node index). */
static void task_set_weight(struct task_ctx *t, u32 cgroup, u32 weight)
{
	bool active = READ_ONCE(t->counted);

	task_deactivate(t);
	if (t->cgroup != cgroup)
		task_join(t, cgroup);
	t->weight = weight;
	if (active)
		task_activate(t);
	task_update_weight(t);
}

/*
 * The nice value of @p has changed. A larger weight, which takes a privilege, leaves what the task
 * owes as much resource time as before. A smaller one leaves as much virtual time: a child
 * that lowers its weight would pay many times for what its parent used.
 */
static void task_renice(const struct task_struct *p, struct task_ctx *t)
{
	u32 old = t->weight, weight = task_own_weight(p, t);

	task_set_weight(t, t->cgroup, weight);
	if (old && weight > old)
		flow_reweigh(&t->flow, vtime_local(scx_bpf_task_cpu(p)), old, weight);
}

/* Brings all weights up to date, before a charge. */
static __always_inline void task_follow_rule(const struct task_struct *p, struct task_ctx *t)
{
	if (!READ_ONCE(t->rule_changed)) {
		task_update_weight(t);
		return;
	}
	WRITE_ONCE(t->rule_changed, 0);
	task_set_weight(t, t->cgroup, task_own_weight(p, t));
}

/* Returns whether a task waits for @cpu, or false where no charge of @bytes depends on it: a look
 * at a queue costs more than the charge. @load: what that charge is told of busy CPUs. While the
 * kernel loads or ends the scheduler, what waits is in no queue. */
static __always_inline bool task_contends(s32 cpu, u64 bytes, struct drfq_load load)
{
	return (bytes || !drfq_charges_time(drfq_conf(), load)) &&
	       (queue_has_waiters(cpu) || vtime_stands_still());
}

/*
 * Charges a packet that runs on @cpu up to now (4.1-4.4). The kernel updates
 * sum_exec_runtime before it calls ops.tick and ops.stopping. @bytes: traffic of the CPU.
 * @waiting: @p itself waits for the CPU from now on. @blocks: the packet ends because the
 * task blocks, so DMA traffic waits for the blocked packet (4.5).
 */
static __always_inline void task_charge(struct task_struct *p, struct task_ctx *t, s32 cpu,
					u64 bytes, bool waiting, bool blocks)
{
	/* Loaded once: another CPU may become idle between two charges. */
	struct drfq_load load = flow_load(waiting);
	u64 exec_ns = p->se.sum_exec_runtime;
	u64 run_ns = exec_ns - t->exec_ns;

	t->exec_ns = exec_ns;
	t->charged_ns += run_ns;
	t->bytes += bytes;
	bytes += task_take_mc_bytes(t);
	pace_charge(t->pace, bytes);
	task_follow_rule(p, t);
	if (limits_exist())
		quota_charge(t->cgroup, run_ns);
	load.waiting = waiting || task_contends(cpu, bytes, load);
	t->last_run_ns = run_ns;
	t->last_bus_ns = flow_charge(&t->flow, run_ns, bytes, load);
	if (blocks)
		return;
	bytes = task_take_dma_bytes(t);
	if (bytes) {
		pace_charge(t->pace, bytes);
		flow_charge_dma(&t->flow, bytes, load.busy_cpus, load.waiting);
	}
}

/* The task ends, or leaves for another class: charges what was moved for it since its last
 * charge. */
static void task_charge_last(struct task_struct *p, struct task_ctx *t)
{
	u64 dma_bytes = task_take_dma_bytes(t), counted = task_take_mc_bytes(t);
	struct drfq_load load;

	if (!dma_bytes && !counted)
		return;
	load = flow_load(queue_has_waiters(scx_bpf_task_cpu(p)));
	pace_charge(t->pace, dma_bytes + counted);
	if (counted)
		flow_charge(&t->flow, 0, counted, load);
	if (dma_bytes)
		flow_charge_dma(&t->flow, dma_bytes, load.busy_cpus, load.waiting);
}

/*
 * @t is no task of this scheduler any more. One that ends pays for all that was moved for it,
 * which its heir inherits: a chain of short tasks would move it for nothing. So does one that
 * leaves for another class, whose return drops what is moved meanwhile. While the kernel ends the
 * scheduler, its next load charges the rest.
 */
static void task_quit(struct task_struct *p, struct task_ctx *t)
{
	if (!vtime_stands_still() || p->flags & PF_EXITING)
		task_charge_last(p, t);
	task_leave(t);
}

/*
 * The part of task_wake() where traffic was counted while the task was blocked. Only DMA
 * traffic marks the task as indebted, that is, as a candidate for delayed wake-up (4.10).
 * CPU time does not: at a low weight, S is far after V after every slice.
 */
static __noinline void task_wake_traffic(struct task_struct *p, struct task_ctx *t)
{
	u64 dma_bytes = task_take_dma_bytes(t), counted = task_take_mc_bytes(t);
	s32 cpu = scx_bpf_task_cpu(p);
	bool waiting = queue_has_waiters(cpu);

	/* The controller reports CPU traffic late. It is not DMA traffic. */
	if (counted)
		flow_charge(&t->flow, 0, counted, flow_load(waiting));
	pace_charge(t->pace, dma_bytes + counted);
	if (dma_bytes)
		t->flags |= DRFQ_TASK_INDEBTED;
	task_update_weight(t);
	flow_wake_dma(&t->flow, vtime_local(cpu), dma_bytes, waiting);
}

/* A blocked packet ends (4.5, 4.7). */
static __always_inline void task_wake(struct task_struct *p, struct task_ctx *t)
{
	t->flags |= DRFQ_TASK_WOKEN;
	count(DRFQ_EV_WAKEUPS);
	if (t->dma_pending_bytes || t->mc_pending_bytes) {
		task_wake_traffic(p, t);
		return;
	}
	task_update_weight(t);
	flow_wake(&t->flow, vtime_local(scx_bpf_task_cpu(p)));
}

/* Returns the node index of the cgroup of @p. */
static u32 task_cgroup_index(struct task_struct *p)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	u32 index;

	if (!cgrp)
		return 0;
	index = cgroup_index_of(cgrp);
	bpf_cgroup_release(cgrp);
	return index;
}

/*
 * Notes the LLCs of the affinity of @p, which has changed. While a task must not migrate, which
 * may begin and end at each switch, one CPU is in effect: no LLC is whole, and those of the
 * configured affinity come back.
 */
static void task_note_llcs(struct task_struct *p, struct task_ctx *t)
{
	bool stays = p->cpus_ptr != &p->cpus_mask;

	if (stays) {
		/* The second of two such calls is a change of the configured affinity. */
		t->configured_llcs = t->stays ? 0 : t->whole_llcs;
		t->whole_llcs = 0;
	} else if (t->stays && t->configured_llcs) {
		t->whole_llcs = t->configured_llcs;
	} else {
		t->whole_llcs = queue_whole_llcs(p->cpus_ptr);
	}
	t->stays = stays;
}

/*
 * The task joins from another scheduling class (or is new). It is not charged for
 * what it used there.
 */
static void task_enable(struct task_struct *p, struct task_ctx *t)
{
	u32 cgroup = task_cgroup_index(p);

	t->exec_ns = p->se.sum_exec_runtime;
	/* Its affinity may have changed in the other class. */
	t->whole_llcs = 0;
	t->stays = 0;
	task_note_llcs(p, t);
	task_set_weight(t, cgroup, task_own_weight(p, t));
	if (!t->enabled)
		cgroup_add_tasks(cgroup, 1);
	t->enabled = 1;
	task_reactivate(p, t);
	/* While the scheduler is being loaded, no slot tells how far the tasks of a CPU are, and
	 * what was moved is the rest of the last load. */
	if (!vtime_stands_still()) {
		__sync_lock_test_and_set(&t->dma_pending_bytes, 0);
		__sync_lock_test_and_set(&t->dma_refused_bytes, 0);
		__sync_lock_test_and_set(&t->mc_pending_bytes, 0);
		flow_wake(&t->flow, vtime_local(scx_bpf_task_cpu(p)));
	}
	/* A task that runs goes on without ops.enqueue. */
	scx_bpf_task_set_dsq_vtime(p, drfq_start(&t->flow));
}

/* The scheduler is being loaded: an account that the last one has left goes on, another one starts
 * at V and B. */
static void task_load(struct task_ctx *t)
{
	/* The weight of a flow is never 0. */
	if (!t->flow.weight)
		drfq_flow_new(&t->flow, vtime_now(), bus_vtime_now(), DRFQ_WEIGHT_ONE);
	__builtin_memset(&t->flags, 0,
			 offsetof(struct task_ctx, charged_ns) - offsetof(struct task_ctx, flags));
}

/*
 * Returns S of the packet that @p starts now (ns of virtual time). @start: S so far.
 * @contended: other tasks wait for this CPU. @reference: S may be at most C before
 * it. If S is more than cap after V, S is capped, or V advances if contended
 * (Algorithm 2; see drfq_cap()). The account is looked up only to correct S.
 */
static u64 task_start_packet(struct task_struct *p, u64 start, bool contended, u64 reference)
{
	bool beyond = drfq_before(vtime_now() + conf.cap_ns, start);
	struct task_ctx *t;

	if (!beyond && !drfq_before(start, reference - conf.wake_credit_ns))
		return start;
	/* What runs then is not what S would choose, and what waits is in no queue. */
	if (vtime_stands_still())
		return start;
	if (beyond && contended) {
		vtime_advance(drfq_contended_v(drfq_conf(), start));
		count(DRFQ_EV_V_PULLED);
		return start;
	}
	t = task_ctx_of(p);
	if (!t)
		return start;
	if (beyond) {
		flow_cap(&t->flow);
		count(DRFQ_EV_CAPPED);
	} else {
		flow_lift(&t->flow, reference);
		count(DRFQ_EV_LIFTED);
	}
	return drfq_start(&t->flow);
}

/*
 * The affinity of @p changes to @allowed. The packet that it leaves is its own if it runs.
 * The next one lies after it, so a task that moves again and again would gain.
 */
static void task_set_affinity(struct task_struct *p, struct task_ctx *t,
			      const struct cpumask *allowed)
{
	s32 cpu = scx_bpf_task_cpu(p);

	task_note_llcs(p, t);
	if (bpf_cpumask_test_cpu(cpu, allowed) || t->leaves_cpu)
		return;
	t->leaves_cpu = 1;
	t->left_after_v_ns = vtime_of_cpu(cpu) - vtime_now();
}

/*
 * @p waits for @cpu, or is sent there. If a change of affinity made it leave another CPU,
 * it keeps its distance from that CPU's packet, relative to the packet of @cpu, and no place
 * in the order there. The kernel queues a task once more where it must leave, before it moves
 * it.
 */
static __always_inline void task_arrive(struct task_struct *p, struct task_ctx *t, s32 cpu)
{
	if (!t->leaves_cpu || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return;
	t->leaves_cpu = 0;
	t->flags &= ~DRFQ_TASK_PLACED;
	flow_move(&t->flow, vtime_now() + t->left_after_v_ns, vtime_of_cpu(cpu));
}

#endif /* DRFQ_TASK_BPF_H */
