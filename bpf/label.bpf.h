/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Labels: what each CPU tells a memory controller about its running task. The
 * controller reads them from memory, or the agent copies them to its registers. A
 * switch costs three plain stores to a cache line that only this CPU writes.
 */
#ifndef DRFQ_LABEL_BPF_H
#define DRFQ_LABEL_BPF_H

/*
 * A separate map, so that its pages hold nothing else. The kernel allocates them by
 * vmalloc() because they can be mapped. Such pages are not movable, so their
 * physical addresses stay while the scheduler is loaded.
 */
struct drfq_label labels[DRFQ_MAX_CPUS] SEC(".data.labels");

/*
 * By hardware id: the virtual time of the traffic of its task, if devices move memory for it.
 * The agent copies it to the controller, because the task itself mostly sleeps.
 */
u64 device_vtimes[DRFQ_HW_IDS] SEC(".data.devices");

static __always_inline struct drfq_label *label_of(s32 cpu)
{
	return &labels[cpu_index(cpu)];
}

/* Returns the virtual time of the traffic of @t, in the unit of the registers. */
static __always_inline u64 label_vtime(const struct task_ctx *t)
{
	return drfq_register_vtime(&t->flow, drfq_conf()) >> register_shift;
}

/* @t was charged. */
static __always_inline void label_devices(const struct task_ctx *t)
{
	if (drives_controller && t->dma_bytes)
		WRITE_ONCE(device_vtimes[t->hw_id & (DRFQ_HW_IDS - 1)], label_vtime(t));
}

/* @t runs on @cpu. The virtual time comes first, so no packet of @t has an older one. */
static __always_inline void label_set(s32 cpu, const struct task_ctx *t)
{
	struct drfq_label *label = label_of(cpu);

	if (!drives_controller)
		return;
	WRITE_ONCE(label->vtime, label_vtime(t));
	WRITE_ONCE(label->pid, t->hw_id);
	label_devices(t);
}

/* A packet of @p starts on @cpu. */
static __always_inline void label_start(s32 cpu, struct task_struct *p)
{
	struct task_ctx *t;

	if (!drives_controller)
		return;
	t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (t)
		label_set(cpu, t);
}

/*
 * A packet ends on @cpu. Another one of ours labels the CPU again. Otherwise it idles
 * or runs another class, whose traffic belongs to no task of ours.
 */
static __always_inline void label_clear(s32 cpu)
{
	if (drives_controller)
		WRITE_ONCE(label_of(cpu)->pid, 0);
}

/*
 * Makes all labels valid or not. They become invalid when the scheduler ends, also if
 * its agent is killed, because the pages are freed and hold other data then.
 */
static void labels_set_valid(bool valid)
{
	s32 cpu;

	if (!drives_controller)
		return;
	bpf_for(cpu, 0, nr_cpu_ids)
		WRITE_ONCE(label_of(cpu)->valid, valid ? DRFQ_LABEL_VALID : 0);
}

#endif /* DRFQ_LABEL_BPF_H */
