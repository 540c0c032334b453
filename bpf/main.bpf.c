// SPDX-License-Identifier: GPL-2.0-only
/*
 * scx_drfq: dominant resource fair queueing of CPU time and memory bandwidth.
 *
 * The life of a packet, one callback each:
 *
 *   select_cpu  a blocked packet ends: S by 4.7; an idle CPU takes the task at
 *               once, unless its debt holds it (hold.bpf.h)
 *   enqueue     the task waits in its LLC's queue in order of S (queue.bpf.h),
 *               and preempts a packet that is later (preempt.bpf.h)
 *   dispatch    a CPU takes the smallest S, or keeps the task it has
 *   running     the packet starts: S is published in the CPU's slot (cpu.bpf.h)
 *   tick        the packet is charged so far; V follows
 *   stopping    the packet ends: D by 4.1-4.3 is added to its flow (task.bpf.h)
 *
 * A switch costs two look-ups of the account (enqueue, stopping), one peek at a
 * queue, and one read of the traffic counter if there is one.
 *
 * The arithmetic is in drfq.h and is tested on the host. Headers rather than
 * objects of their own: the verifier then follows pointers across them.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>

#include "intf.h"
#include "options.bpf.h"
#include "cpu.bpf.h"
#include "flow.bpf.h"
#include "pmu.bpf.h"
#include "cgroup.bpf.h"
#include "task.bpf.h"
#include "queue.bpf.h"
#include "idle.bpf.h"
#include "preempt.bpf.h"
#include "hold.bpf.h"
#include "timer.bpf.h"
#include "dma.bpf.h"
#include "fork.bpf.h"
#include "dump.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Sends @p to the CPU it is on, ahead of all queues. */
static __always_inline void dispatch_local(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	/* ops.running takes S from the task, without a look-up. */
	scx_bpf_task_set_dsq_vtime(p, drfq_start(&t->flow));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
}

s32 BPF_STRUCT_OPS(drfq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	bool idle = false;
	s32 cpu;

	if (!t)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_TTWU) {
		task_wake(p, t);
		if (wake_flags & SCX_WAKE_SYNC)
			t->flags |= DRFQ_TASK_SYNC;
		if (hold_needed(p, t))
			return prev_cpu;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle) {
		dispatch_local(p, t, 0);
		count(DRFQ_EV_DIRECT);
	}
	return cpu;
}

/*
 * A per-CPU kernel thread goes past the queues when it wakes: others wait for
 * it. Not if it is in debt itself, or a busy one would never let the CPU go.
 */
static __always_inline bool goes_to_local_dsq(struct task_struct *p, struct task_ctx *t)
{
	return task_is_kthread(p) && task_is_pinned(p) && (t->flags & DRFQ_TASK_WOKEN) &&
	       !drfq_before(vtime_now() + conf.hold_ns, drfq_start(&t->flow));
}

/* Where in its queue @p goes: at S, or one slice behind if it just yielded. */
static __always_inline u64 queue_key(struct task_struct *p, struct task_ctx *t)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(p));
	struct drfq_flow after = t->flow;

	if (slot->yielded_pid != (u32)p->pid)
		return drfq_start(&t->flow);
	slot->yielded_pid = 0;
	flow_charge(&after, slice_ns, 0);
	return drfq_start(&after);
}

void BPF_STRUCT_OPS(drfq_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return;
	}
	/* select_cpu is not called for a task that has no choice. */
	if (wakeup && !(t->flags & DRFQ_TASK_WOKEN))
		task_wake(p, t);
	task_activate(t);
	if (goes_to_local_dsq(p, t)) {
		dispatch_local(p, t, enq_flags);
		preempt_cpu(scx_bpf_task_cpu(p), drfq_start(&t->flow));
		count(DRFQ_EV_LOCAL_KTHREADS);
		return;
	}
	if (hold_needed(p, t)) {
		hold_insert(p, t, enq_flags);
		return;
	}
	queue_insert(p, queue_key(p, t), enq_flags);
	/* Nobody has looked for an idle CPU; for a debtor select_cpu has not
	 * either, and V may have released it since. */
	if ((!__COMPAT_is_enq_cpu_selected(enq_flags) || (t->flags & DRFQ_TASK_INDEBTED)) &&
	    kick_idle_for(p))
		return;
	/* A waker that is about to block makes room by itself, at its slice's end
	 * at the latest; to preempt it costs two switches for every message. */
	if (wakeup && !(t->flags & DRFQ_TASK_SYNC))
		preempt_for(p, drfq_start(&t->flow));
}

/* A packet of @p starts at @start on the CPU of @slot. */
static void start_packet(struct drfq_cpu *slot, struct task_struct *p, u64 start)
{
	u64 old = slot->vtime_ns;

	slot->preempt_pending = false;
	slot->charged_vtime_ns = start;
	slot->charged_at_ns = scx_bpf_now();
	WRITE_ONCE(slot->vtime_ns, start);
	slot_set_pid(slot, p->pid);
	vtime_refresh(old);
}

/*
 * The task on the CPU goes on with a new packet. @contended: the first task that
 * waits for this CPU starts at @head. What the task could not use of its weight,
 * because it is worth more than a CPU, it keeps no more than C of: behind V, or
 * behind those who wait if V has been pulled past them.
 */
static void continue_running(struct drfq_cpu *slot, struct task_struct *prev, bool contended,
			     u64 head)
{
	u64 v = vtime_now();

	slot->yielded_pid = 0;
	start_packet(slot, prev,
		     task_start_packet(prev, slot->charged_vtime_ns, contended,
				       contended ? drfq_earlier(v, head) : v));
	scx_bpf_task_set_slice(prev, slice_ns);
	count(DRFQ_EV_CONTINUED);
}

void BPF_STRUCT_OPS(drfq_dispatch, s32 cpu, struct task_struct *prev)
{
	bool runnable = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct drfq_cpu *slot = cpu_slot(cpu);
	u32 llc = llc_of_cpu(cpu);
	u64 dsq, start = 0;
	bool held, found;

	held = hold_nonempty();
	if (held)
		hold_release(DRFQ_DSQ_LLC + llc, false);
	found = queue_choose(cpu, &dsq, &start);
	if (runnable && found && slot->yielded_pid != (u32)prev->pid &&
	    !drfq_before(start, slot->charged_vtime_ns)) {
		continue_running(slot, prev, true, start);
		return;
	}
	if (queue_take_any(dsq, llc))
		return;
	if (runnable)
		continue_running(slot, prev, false, 0);
	else if (!(held && !cpus_busy(cpu) && hold_release(DRFQ_DSQ_LLC + llc, true) &&
		   queue_take_any(DRFQ_DSQ_LLC + llc, llc)))
		kick_idle_for_queued();
}

/*
 * S of a packet that starts further beyond V than the cap. It may have been taken
 * out of order, while the task that was to run before it was on no queue: from
 * ops.dispatch until the former task of that CPU is put back, for example. That
 * one waits by now, and V must not be pulled past it.
 */
static __noinline u64 start_beyond_cap(struct task_struct *p, s32 cpu, u64 start)
{
	u64 dsq = DRFQ_DSQ_LLC + llc_of_cpu(cpu), head;

	if (queue_head(dsq, cpu, &head) && drfq_before(head, start))
		return start;
	return task_start_packet(p, start, scx_bpf_dsq_nr_queued(dsq) > 0, start);
}

void BPF_STRUCT_OPS(drfq_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct drfq_cpu *slot = cpu_slot(cpu);
	u64 start = p->scx.dsq_vtime;

	if (drfq_before(vtime_now() + conf.cap_ns, start))
		start = start_beyond_cap(p, cpu, start);
	start_packet(slot, p, start);
	/* A change of nice or affinity stops and starts a running task from
	 * another CPU; the counter's base then stays as it is, the task's own. */
	if (cpu != bpf_get_smp_processor_id())
		count(DRFQ_EV_REMOTE_UPDATES);
	else if (!slot->base_valid)
		pmu_start(slot);
	count(DRFQ_EV_SWITCHES);
}

void BPF_STRUCT_OPS(drfq_tick, struct task_struct *p)
{
	struct drfq_cpu *slot = cpu_slot(bpf_get_smp_processor_id());
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	task_charge(p, t, pmu_take_bytes(slot), false);
	slot->charged_vtime_ns = drfq_start(&t->flow);
	slot->charged_at_ns = scx_bpf_now();
	/* A packet starts just after a tick, so that just before the tick that
	 * should end its slice a little is left of it: without this a slice of
	 * one tick would last two. */
	if (p->scx.slice < slice_ns / 8)
		scx_bpf_task_set_slice(p, 0);
	if (hold_nonempty())
		hold_kick_idle(false);
}

void BPF_STRUCT_OPS(drfq_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 bytes = 0;

	if (!t)
		return;
	if (cpu == bpf_get_smp_processor_id()) {
		bytes = pmu_take_bytes(slot);
		slot->base_valid = true;
	} else {
		count(DRFQ_EV_REMOTE_UPDATES);
	}
	task_charge(p, t, bytes, !runnable);
	if (!runnable)
		task_deactivate(t);
	t->flags &= ~(DRFQ_TASK_WOKEN | DRFQ_TASK_INDEBTED | DRFQ_TASK_SYNC);
	hold_end(t);
	/* The slot stays as it is until the next packet starts or the CPU goes
	 * idle: a CPU between two packets is busy. Another CPU that scanned just
	 * then, as ticks at the same time make likely, would take it for idle
	 * and charge its own packet for more (4.5.2). */
}

void BPF_STRUCT_OPS(drfq_update_idle, s32 cpu, bool idle)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	if (!idle) {
		kick_idle_for_queued();
		return;
	}
	slot_set_pid(slot, 0);
	slot->base_valid = false;
	vtime_refresh(slot->vtime_ns);
	/* What was queued after ops.dispatch looked, and before others could see
	 * that this CPU idles, has woken nobody. */
	kick_idle_for_queued();
	if (hold_nonempty())
		hold_kick_idle(!cpus_busy(-1));
}

/* A higher class takes the CPU: what waits on it must not wait for that. */
void BPF_STRUCT_OPS(drfq_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	slot_set_pid(slot, 0);
	slot->base_valid = false;
	scx_bpf_reenqueue_local();
	count(DRFQ_EV_REENQUEUED);
}

bool BPF_STRUCT_OPS(drfq_yield, struct task_struct *from, struct task_struct *to)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(from));

	if (to)
		return false;
	slot->yielded_pid = from->pid;
	scx_bpf_task_set_slice(from, 0);
	count(DRFQ_EV_YIELDS);
	return false;
}

void BPF_STRUCT_OPS(drfq_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_set_weight(t, t->cgroup, task_weight(p));
}

void BPF_STRUCT_OPS(drfq_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_migrate(p, t, cpumask);
}

void BPF_STRUCT_OPS(drfq_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_set_weight(t, cgroup_index_of(to), t->weight);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t;

	t = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOMEM;
	t->weight = task_weight(p);
	drfq_flow_new(&t->flow, args->fork ? fork_start_vtime() : vtime_now(), t->weight);
	t->exec_ns = p->se.sum_exec_runtime;
	return 0;
}

void BPF_STRUCT_OPS(drfq_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (t && (p->flags & PF_EXITING))
		fork_return_vtime(p, t);
}

void BPF_STRUCT_OPS(drfq_enable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_enable(p, t);
}

/* The task leaves for another scheduling class, or for good. */
void BPF_STRUCT_OPS(drfq_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_deactivate(t);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_init)
{
	s32 err = queue_init();

	if (err)
		return err;
	err = hold_init();
	if (err)
		return err;
	return timer_setup();
}

void BPF_STRUCT_OPS(drfq_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* No cpu_online and cpu_offline: the kernel then ends the scheduler with the
 * request to start again, and the loader reads the new topology. */
/* clang-format off */
SCX_OPS_DEFINE(drfq_ops,
	       .select_cpu		= (void *)drfq_select_cpu,
	       .enqueue			= (void *)drfq_enqueue,
	       .dispatch		= (void *)drfq_dispatch,
	       .running			= (void *)drfq_running,
	       .tick			= (void *)drfq_tick,
	       .stopping		= (void *)drfq_stopping,
	       .update_idle		= (void *)drfq_update_idle,
	       .cpu_release		= (void *)drfq_cpu_release,
	       .yield			= (void *)drfq_yield,
	       .set_weight		= (void *)drfq_set_weight,
	       .set_cpumask		= (void *)drfq_set_cpumask,
	       .init_task		= (void *)drfq_init_task,
	       .exit_task		= (void *)drfq_exit_task,
	       .enable			= (void *)drfq_enable,
	       .disable			= (void *)drfq_disable,
	       .cgroup_init		= (void *)drfq_cgroup_init,
	       .cgroup_exit		= (void *)drfq_cgroup_exit,
	       .cgroup_move		= (void *)drfq_cgroup_move,
	       .cgroup_set_weight	= (void *)drfq_cgroup_set_weight,
	       .dump			= (void *)drfq_dump,
	       .dump_cpu		= (void *)drfq_dump_cpu,
	       .dump_task		= (void *)drfq_dump_task,
	       .init			= (void *)drfq_init,
	       .exit			= (void *)drfq_exit,
	       .flags			= SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING |
					  SCX_OPS_ENQ_MIGRATION_DISABLED |
					  SCX_OPS_ALLOW_QUEUED_WAKEUP,
	       .timeout_ms		= 30000,
	       .name			= "drfq");
/* clang-format on */
