/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time across fork and exit.
 *
 * By 4.8 a new flow starts at V. This scheduler starts a forked task at its
 * parent's S, or at V if that is later. When the task exits, the virtual time
 * of its heir is raised by what the task used beyond V, at the heir's weight. The heir
 * is the task that made it, also where that is a thread, or the heir of that if it has ended.
 * So tasks that run one after the other are one flow, and tasks that run in parallel are as many
 * flows as run.
 *
 * With 4.8 alone, a chain of short tasks (a shell loop, make) escapes its charges.
 * A task's use ends with the task, and its successor starts at V again. In the
 * simulator, two hogs beside a chain of 1 ms tasks then get 0.1 % of a CPU each,
 * where 33 % is fair.
 */
#ifndef DRFQ_FORK_BPF_H
#define DRFQ_FORK_BPF_H

/* How many generations in a row may have ended before an heir is found. */
#define FORK_GENERATIONS 64

/* Tasks that have made others, with the task that made each one. It has those that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct task_id);
	__type(value, struct task_id);
} fork_makers SEC(".maps");

static __always_inline struct task_id fork_id(const struct task_struct *p)
{
	return (struct task_id){.started_ns = p->start_time, .pid = p->pid};
}

static __always_inline bool fork_is(const struct task_id *id, const struct task_id *other)
{
	return id->pid == other->pid && id->started_ns == other->started_ns;
}

/* Keeps who made the task @id with account @t. A thread that calls exec() gets the id of its main
 * thread, which may have made it. Nothing else tells then who made that one. */
static __always_inline void fork_keep_maker(const struct task_id *id, const struct task_ctx *t)
{
	if (!fork_is(&t->maker, id))
		bpf_map_update_elem(&fork_makers, id, &t->maker, BPF_ANY);
}

/*
 * Returns the bus time (ns of virtual time) of the traffic that a parent has moved in
 * @run_ns, since its last charge. The counter belongs to the CPU, and may change
 * hands here, so this is an estimate from the part that was charged last. It is at most
 * that part: a packet of microseconds may have paid for what was counted long before.
 */
static u64 fork_uncharged_bus_ns(const struct task_ctx *t, u64 run_ns)
{
	u64 last_run_ns = t->last_run_ns;

	if (run_ns >= last_run_ns)
		return last_run_ns ? t->last_bus_ns : 0;
	return run_ns * t->last_bus_ns / last_run_ns;
}

/* The current task makes a task. That follows the same rule, and has the same pace, until the
 * agent looks. */
static void fork_inherit(struct task_ctx *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, parent, 0, 0);

	child->maker = fork_id(parent);
	if (!t)
		return;
	/* Between its end and its callback, no thread id may find it. */
	if (!t->has_made)
		fork_keep_maker(&child->maker, t);
	t->has_made = 1;
	child->rule_weight = t->rule_weight;
	child->pace = t->pace;
}

/*
 * Initializes the account @child of a task that the current task forks. It starts at
 * the parent's S and bus_vt, charged up to now, or at V and B if those are later. The
 * parent's account is not modified, because another CPU may charge it.
 */
static void fork_init(struct task_ctx *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, parent, 0, 0);
	u64 v = vtime_local_by_last(cpu), bus_v = bus_vtime_now() + DRFQ_BUS_SLACK_NS, run_ns;
	struct drfq_load load;
	struct drfq_flow flow;

	drfq_flow_new(&child->flow, v, bus_v, child->weight);
	if (!t || slot->pid != (u32)parent->pid)
		return;
	run_ns = scx_bpf_now() - slot->charged_at_ns;
	/* At most one tick is uncharged. The limit guards against clock errors. */
	if (run_ns > 2 * slice_ns)
		run_ns = 2 * slice_ns;
	load = flow_load(queue_has_waiters(cpu));
	task_take_over_dma(slot, t);
	flow = t->flow;
	drfq_wake(&flow, drfq_conf(), v, task_dma_bytes(t, 0), load);
	/* B follows the parent at this distance, once what devices move is charged. */
	flow.bus_vt =
		drfq_earlier(flow.bus_vt, bus_vtime_now() + drfq_bus_ahead(&flow, drfq_conf()));
	flow_charge(&flow, run_ns, 0, load);
	flow.bus_vt += fork_uncharged_bus_ns(t, run_ns);
	drfq_flow_fork(&child->flow, &flow, drfq_conf(), v, bus_v, child->weight);
	child->last_run_ns = t->last_run_ns;
	child->last_bus_ns = t->last_bus_ns;
}

/* Returns what devices have moved for @heir, whose account is @h, and what is not charged yet. */
static u64 fork_dma_bytes(const struct task_struct *heir, const struct task_ctx *h)
{
	const struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(heir));

	return task_dma_bytes(h, slot_runs(slot, heir) ? slot_dma_pending(slot) : 0);
}

/* Raises the virtual times of @heir, whose account is @h, by what the task of @t used beyond the V
 * of the CPU of @heir. */
static void fork_raise(const struct task_ctx *t, const struct task_struct *heir, struct task_ctx *h)
{
	s32 cpu = scx_bpf_task_cpu(heir);
	u64 dma_bytes = fork_dma_bytes(heir, h);
	u64 start = flow_inherited(&t->flow, &h->flow, vtime_local(cpu));
	u64 bus_vt = flow_bus_inherited(&t->flow, &h->flow);
	struct drfq_flow charged = h->flow;
	struct drfq_load load;

	/* What devices moved for the heir before it forked counts for its child, too. Where the
	 * heir is not charged for it yet, it will be. */
	if (dma_bytes) {
		load = flow_load(queue_has_waiters(cpu));
		drfq_charge_dma(&charged, drfq_conf(), dma_bytes, load);
		start -= drfq_start(&charged) - drfq_start(&h->flow);
		bus_vt -= charged.bus_vt - h->flow.bus_vt;
	}
	/* A concurrent charge of the heir may overwrite this. Then one child's
	 * use is not charged to it, which is rare and small. */
	h->flow.cpu_vt = drfq_later(h->flow.cpu_vt, start);
	start = drfq_start(&h->flow) - conf.delta_ns;
	if (drfq_before(h->flow.mem_vt, start))
		h->flow.mem_vt = start;
	h->flow.bus_vt = drfq_later(h->flow.bus_vt, bus_vt);
}

/* Returns the task @id, with a reference, also while it is a zombie; NULL: it is gone. */
static __always_inline struct task_struct *fork_find(const struct task_id *id)
{
	struct task_struct *found = bpf_task_from_pid(id->pid);

	if (!found)
		return NULL;
	if (found->start_time == id->started_ns)
		return found;
	bpf_task_release(found);
	return NULL;
}

/*
 * Replaces a task @id that has ended by the one that made it, which may have ended, too. Returns
 * false if the task lives, or if nobody knows who made it: then @id is 0.
 */
static __always_inline bool fork_pass_ended(struct task_id *id)
{
	struct task_struct *found = fork_find(id);
	struct task_id maker = {}, *kept;
	bool lives = false;
	struct task_ctx *t;

	if (found) {
		t = bpf_task_storage_get(&task_ctxs, found, 0, 0);
		lives = !found->exit_state;
		if (t)
			maker = t->maker;
		bpf_task_release(found);
	}
	if (lives)
		return false;
	if (!found || fork_is(&maker, id)) {
		kept = bpf_map_lookup_elem(&fork_makers, id);
		maker = (struct task_id){};
		if (kept)
			maker = *kept;
	}
	*id = maker;
	return maker.pid;
}

/*
 * Returns the task that made the one of @t, with a reference. If that has ended, it is the heir of
 * that: a task that forks twice, and lets the first child end at once, pays for the second one.
 * NULL: none lives, or FORK_GENERATIONS have ended.
 */
static __always_inline struct task_struct *fork_maker(const struct task_ctx *t)
{
	struct task_struct *maker;
	struct task_id id = t->maker;
	u32 generation;

	bpf_for(generation, 0, FORK_GENERATIONS) {
		if (!fork_pass_ended(&id))
			break;
	}
	maker = fork_find(&id);
	if (!maker || !maker->exit_state)
		return maker;
	bpf_task_release(maker);
	return NULL;
}

/*
 * Returns the parent of @p, or the leader of its thread group if it is a thread, with a reference;
 * NULL: that has ended. @p has been reaped, so it may be freed: nothing keeps what @p points to.
 * The thread id read there is that of a living task, or means nothing.
 */
static __always_inline struct task_struct *fork_elder(const struct task_struct *p)
{
	struct task_struct *elder = p->pid == p->tgid ? p->real_parent : p->group_leader;
	struct task_struct *found;
	s32 pid = 0;

	if (elder)
		bpf_probe_read_kernel(&pid, sizeof(pid), &elder->pid);
	found = bpf_task_from_pid(pid);
	if (!found || found == elder)
		return found;
	bpf_task_release(found);
	return NULL;
}

/*
 * @p, with account @t, exits. Raises the virtual time of its heir by what @p used beyond V, at the
 * weight of the heir: the task that made it, or the heir of that, or its own parent or leader if
 * none lives.
 */
static void fork_return_vtime(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *heir = fork_maker(t);
	struct task_id id = fork_id(p);
	struct task_ctx *h;

	/* So the way to an heir is short for those that end later. */
	if (heir)
		t->maker = fork_id(heir);
	if (t->has_made)
		fork_keep_maker(&id, t);
	if (!heir)
		heir = fork_elder(p);
	if (!heir)
		return;
	h = bpf_task_storage_get(&task_ctxs, heir, 0, 0);
	if (h)
		fork_raise(t, heir, h);
	bpf_task_release(heir);
}

#endif /* DRFQ_FORK_BPF_H */
