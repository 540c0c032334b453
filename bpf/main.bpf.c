// SPDX-License-Identifier: GPL-2.0-only
/*
 * scx_drfq: dominant resource fair queueing of CPU time and memory bandwidth.
 *
 * The callbacks, in the order of a packet's life:
 *
 *   select_cpu  A blocked packet ends, and S follows 4.7. If a CPU is idle, the
 *               task is dispatched to it, unless 4.10 holds it (hold.bpf.h).
 *   enqueue     The task waits in its queue, in order of S (queue.bpf.h). It
 *               may preempt a packet with a later S (preempt.bpf.h).
 *   dispatch    A CPU takes the task with the smallest S, or continues its own.
 *   running     The packet starts. The CPU's slot publishes its S (cpu.bpf.h), and
 *               its label the task to a memory controller (label.bpf.h).
 *   tick        The packet is charged up to now.
 *   stopping    The packet ends, and D (4.1-4.3) is added to its flow (task.bpf.h).
 *
 * From select_cpu or enqueue until it blocks, a task counts in its cgroup (cgroup.bpf.h). What
 * runnable and quiescent would cost before their first instruction is more than that work.
 *
 * A switch costs two look-ups of the account (enqueue, stopping), one peek at a queue, and one
 * read of the traffic counter, if any. With a memory controller, running looks it up, too.
 *
 * drfq.h has the arithmetic, which is also tested on the host. The other files are
 * headers, not separate objects, so that the verifier follows pointers across them.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>

#include "intf.h"
#include "options.bpf.h"
#include "cpu.bpf.h"
#include "flow.bpf.h"
#include "pmu.bpf.h"
#include "cgroup.bpf.h"
#include "quota.bpf.h"
#include "cgroup_ops.bpf.h"
#include "account.bpf.h"
#include "twice.bpf.h"
#include "pace.bpf.h"
#include "urgent.bpf.h"
#include "queue.bpf.h"
#include "local.bpf.h"
#include "task.bpf.h"
#include "label.bpf.h"
#include "idle.bpf.h"
#include "place.bpf.h"
#include "preempt.bpf.h"
#include "hold.bpf.h"
#include "ahead.bpf.h"
#include "rescue.bpf.h"
#include "throttle.bpf.h"
#include "timer.bpf.h"
#include "dma.bpf.h"
#include "net.bpf.h"
#include "fork.bpf.h"
#include "agent.bpf.h"
#include "hotplug.bpf.h"
#include "dump.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Dispatches @p to the local DSQ of its CPU, ahead of the LLC's queue. */
static __always_inline void dispatch_local(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	/* ops.running reads S from the task, without a look-up. */
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
	/* A waker of a higher class makes no room, nor does a softirq. The kernel marks both. */
	if (wake_flags & SCX_WAKE_SYNC && (!own_slot()->pid || in_softirq()))
		wake_flags &= ~(u64)SCX_WAKE_SYNC;
	if (wake_flags & SCX_WAKE_TTWU) {
		task_wake(p, t);
		label_devices(t);
		if (wake_flags & SCX_WAKE_SYNC)
			t->flags |= DRFQ_TASK_SYNC;
		if (hold_needed(p, t))
			return prev_cpu;
	}
	if (throttled_until(p, t, false))
		return prev_cpu;
	cpu = choose_cpu(p, prev_cpu, wake_flags, &idle);
	if (idle) {
		task_activate(t);
		task_arrive(p, t, cpu);
		dispatch_local(p, t, 0);
		count(DRFQ_EV_DIRECT);
	} else if (t->flags & DRFQ_TASK_SYNC) {
		place_after_waker(p, t);
	}
	return cpu;
}

/* @p, with @t, goes to its CPU's local DSQ for its last switch, or where any CPU takes it if
 * a higher class has that CPU. */
static __always_inline void dispatch_last(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(p));
	u64 v = drfq_earlier(vtime_now(), READ_ONCE(slot->vtime_ns));

	if (READ_ONCE(slot->taken)) {
		/* Before the others of its queue, which may lie behind V. Its packet was there. */
		queue_insert(p, t, v - conf.cap_ns, enq_flags);
		kick_idle_for(p);
		return;
	}
	/* A task that was rescued for this CPU needs the mark more. */
	if (!slot->ahead_pid)
		ahead_begin(slot, p, DRFQ_AHEAD_WITHOUT_BUDGET);
	dispatch_local(p, t, enq_flags);
}

/* Returns the place of @p in its queue (ns): place_of(), or S one slice later after a yield. */
static __always_inline u64 queue_key(struct task_struct *p, struct task_ctx *t)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(p));
	struct drfq_flow after = t->flow;

	if (slot->yielded_pid != (u32)p->pid)
		return place_of(t);
	slot->yielded_pid = 0;
	flow_charge(&after, slice_ns, 0, flow_load(true));
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
	/* The kernel does not call select_cpu for a task that is pinned. */
	if (wakeup && !(t->flags & DRFQ_TASK_WOKEN)) {
		task_wake(p, t);
		label_devices(t);
	}
	task_activate(t);
	task_arrive(p, t, scx_bpf_task_cpu(p));
	/* One that a higher class has kept from its CPU waits in its queue. The kernel ends a
	 * scheduler that queues a task again 256 times. */
	if (!(enq_flags & SCX_ENQ_REENQ) && goes_to_local_dsq(p, t)) {
		dispatch_local(p, t, enq_flags);
		preempt_cpu(scx_bpf_task_cpu(p), drfq_start(&t->flow));
		count(DRFQ_EV_LOCAL_KTHREADS);
		return;
	}
	if (task_leaves(p)) {
		dispatch_last(p, t, enq_flags);
		return;
	}
	/* A CPU that keeps no task idles then, and looks no more at its local DSQ. */
	if (!(enq_flags & SCX_ENQ_LAST) && task_is_agent(p) && agent_goes_ahead(p)) {
		ahead_begin(cpu_slot(scx_bpf_task_cpu(p)), p, DRFQ_AHEAD_AGENT);
		dispatch_local(p, t, enq_flags | SCX_ENQ_PREEMPT);
		count(DRFQ_EV_AGENT_AHEAD);
		return;
	}
	if (task_is_agent(p))
		agent_wait_begin(p->pid);
	if (throttle(p, t, enq_flags))
		return;
	if (hold_needed(p, t)) {
		hold_insert(p, t, enq_flags);
		return;
	}
	queue_insert(p, t, queue_key(p, t), enq_flags);
	/* Look for an idle CPU if select_cpu did not. It was not called, or V has
	 * released the task that it held for DMA traffic, or a throttle has ended. */
	if ((!__COMPAT_is_enq_cpu_selected(enq_flags) || (t->flags & DRFQ_TASK_INDEBTED) ||
	     limits_exist()) &&
	    kick_idle_for(p))
		return;
	/* After a synchronous wake-up the waker blocks and makes room. Preempting
	 * it would cost two switches for every message. */
	if (wakeup && !(t->flags & DRFQ_TASK_SYNC))
		preempt_for(p, drfq_start(&t->flow));
}

/* A packet of @p starts on the CPU of @slot, with S = @start (ns). @published: what V
 * may advance to at most while it runs, usually S (ns). */
static __always_inline void start_packet(struct drfq_cpu *slot, struct task_struct *p, u64 start,
					 u64 published)
{
	slot->preempt_pending = false;
	slot->charged_vtime_ns = start;
	slot->charged_at_ns = scx_bpf_now();
	WRITE_ONCE(slot->vtime_ns, published);
	slot_set_pid(slot, p->pid);
	vtime_refresh();
}

/* The running task continues on its CPU with a new packet. For @contended and @head see
 * start_of_continued(). */
static void continue_running(struct drfq_cpu *slot, struct task_struct *prev, bool contended,
			     u64 head)
{
	u64 published, start;

	/* It left the class while ops.dispatch had given up the lock to move another task. */
	if (!(prev->scx.flags & SCX_TASK_QUEUED))
		return;
	slot->yielded_pid = 0;
	/* First: it may have to give the CPU back. */
	scx_bpf_task_set_slice(prev, slice_ns);
	start = start_of_continued(slot, prev, contended, head, &published);
	start_packet(slot, prev, start, published);
	count(DRFQ_EV_CONTINUED);
}

/*
 * Part of ops.dispatch of @cpu, with @slot, where @head has a far queue. @runnable: the last
 * task waits. @keeps: it may also continue. Returns whether a task was taken.
 */
static bool dispatch_far(struct drfq_cpu *slot, s32 cpu, bool runnable, bool keeps,
			 struct queue_pick *head)
{
	if (keeps && !drfq_before(head->far_start, slot->charged_vtime_ns)) {
		queue_count_far(head);
		return false;
	}
	if (runnable)
		exchange_begin(slot, cpu);
	if (queue_take_far(slot, cpu, head))
		return true;
	exchange_end(slot, cpu);
	return false;
}

void BPF_STRUCT_OPS(drfq_dispatch, s32 cpu, struct task_struct *prev)
{
	bool runnable = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct queue_pick head = {};
	bool held, keeps, own = cpu == (s32)bpf_get_smp_processor_id();

	/* The kernel tells of no idle CPU while it bypasses the scheduler. */
	if (!prev && slot->pid)
		slot_clear(slot);
	/* With core scheduling, a CPU also picks for its sibling. scx_bpf_dsq_move() would deadlock
	 * there without a fix of the kernel: it takes the CPU that runs for the one that picks. */
	held = own && hold_nonempty();
	if (held) {
		hold_release(false);
		hold_release_overdue();
	}
	if (runnable && rescue_goes_on(slot, cpu, prev))
		return;
	if (prev)
		ahead_end(slot, prev);
	exchange_end(slot, cpu);
	if (own && (agent_take(cpu) || rescue(slot, cpu))) {
		if (runnable)
			exchange_begin(slot, cpu);
		return;
	}
	/* ops.enqueue then makes it wait. */
	if (runnable && limits_exist() && throttles(prev, false))
		runnable = false;
	queue_choose(cpu, &head);
	keeps = runnable && slot->yielded_pid != (u32)prev->pid;
	if (head.far_dsq && dispatch_far(slot, cpu, runnable, keeps, &head))
		return;
	if (keeps && head.dsq) {
		if (drfq_before(head.start, slot->charged_vtime_ns)) {
			exchange_begin(slot, cpu);
			if (own ? queue_take_before(head.dsq, cpu, slot->charged_vtime_ns)
				: queue_take(head.dsq, llc_of_cpu(cpu)))
				return;
			exchange_end(slot, cpu);
		}
		continue_running(slot, prev, true, head.start);
		return;
	}
	/* If no queue has a task, another look would cost what the first one did. A task
	 * that arrives meanwhile is found when the CPU becomes idle. */
	if (head.any) {
		if (runnable && head.dsq)
			exchange_begin(slot, cpu);
		if (queue_take_any(head.dsq, cpu))
			return;
		exchange_end(slot, cpu);
	}
	if (runnable)
		continue_running(slot, prev, false, 0);
	else if (held && !cpus_busy(cpu) && hold_release(true) && queue_take_any(0, cpu))
		return;
	else if (head.any)
		kick_idle_for_queued(cpu);
}

void BPF_STRUCT_OPS(drfq_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct drfq_cpu *slot = cpu_slot(cpu), *own = own_slot();
	u64 start = was_placed(p) ? start_of_placed(p) : p->scx.dsq_vtime, published = start;

	exchange_end(slot, cpu);
	if (slot_dma_pending(slot) && !slot_runs(slot, p))
		slot_disown_dma(slot);
	rescue_count_late(p);
	agent_wait_end(p->pid);
	if (runs_ahead(slot, p) || drfq_before(vtime_now() + conf.cap_ns, start))
		start = start_out_of_order(p, cpu, start, &published);
	start_packet(slot, p, start, published);
	slot_given_back(slot);
	/* It was queued before its group had used up its quota. */
	if (limits_exist() && !waits_late(p) && throttles(p, true))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	label_start(cpu, p);
	/* A change of nice or affinity stops and starts a running task from
	 * another CPU. The counter's base then stays valid for the same task. */
	if (slot != own)
		own->events[DRFQ_EV_REMOTE_UPDATES]++;
	else if (!slot->base_valid)
		pmu_start(slot);
	own->events[DRFQ_EV_SWITCHES]++;
}

void BPF_STRUCT_OPS(drfq_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	/* It may run uncounted if it was changed while it was about to sleep, or woke while the
	 * kernel bypassed the scheduler. The CPU may also be about to leave a task that sleeps. */
	if (p->scx.flags & SCX_TASK_QUEUED)
		task_activate(t);
	task_take_over_dma(slot, t);
	task_charge(p, t, cpu, pmu_take_packet(slot, cpu), false, false);
	slot->charged_vtime_ns = drfq_start(&t->flow);
	slot->charged_at_ns = scx_bpf_now();
	label_set(cpu, t);
	/* Only a tick ends a slice, so the one that is nearest to its end does. Otherwise a
	 * slice of one tick that starts after a tick would last nearly two, and its task would
	 * then wait for twice as long as the others. */
	if (p->scx.slice < slice_ns / 2 || throttled_until(p, t, false))
		scx_bpf_task_set_slice(p, 0);
	if (hold_nonempty())
		hold_kick_idle(false);
}

void BPF_STRUCT_OPS(drfq_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct drfq_cpu *slot = cpu_slot(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 bytes;

	label_clear(cpu);
	if (!t)
		return;
	twice_keep(slot, t);
	task_take_over_dma(slot, t);
	bytes = pmu_take_packet(slot, cpu);
	/* A packet that another one ends has already lost its place in the queue
	 * to it: ops.dispatch took that task out of the queue before. */
	task_charge(p, t, cpu, bytes, runnable, !runnable);
	label_devices(t);
	/* A running task also stops, and starts again, when the kernel changes it, even one that
	 * is about to sleep. Put back without ops.enqueue, it starts from here. */
	scx_bpf_task_set_dsq_vtime(p, drfq_start(&t->flow));
	if (!runnable && p->__state)
		task_deactivate(t);
	ahead_end(slot, p);
	wake_end(t, runnable);
	urgent_end(t);
	/* The slot keeps its pid until the next packet starts or the CPU becomes
	 * idle, because a CPU between two packets counts as busy. CPUs often tick
	 * together: if the slot were empty here, the others would divide by too
	 * few busy CPUs (4.5.2). */
}

void BPF_STRUCT_OPS(drfq_update_idle, s32 cpu, bool idle)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	exchange_end(slot, cpu);
	if (!idle) {
		/* Kernels before 6.19 do not tell of a higher class that takes an idle CPU. If
		 * one of our tasks has it, ops.running follows at once. */
		WRITE_ONCE(slot->taken, 1);
		kick_idle_for_queued(cpu);
		return;
	}
	slot_clear(slot);
	slot_given_back(slot);
	vtime_refresh();
	/* A task that was queued between ops.dispatch and this CPU's idle bit
	 * has woken no CPU. Wake one now. */
	if (queue_has_pinned(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	kick_idle_for_queued(cpu);
	if (hold_nonempty())
		hold_kick_idle(!cpus_busy(-1));
}

/* A higher scheduling class takes @cpu. The tasks of its local DSQ are queued again. */
static __always_inline void lose_cpu(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	slot_lost(slot);
	/* What this CPU has taken is queued again. */
	slot->ahead_pid = 0;
	exchange_end(slot, cpu);
	scx_bpf_reenqueue_local();
	count(DRFQ_EV_REENQUEUED);
}

/* Only on kernels where scx_bpf_reenqueue_local() works nowhere else. The loader drops
 * this callback or the next program. */
void BPF_STRUCT_OPS(drfq_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	lose_cpu(cpu);
}

/* The kernel holds the lock of this CPU's run queue. */
SEC("tp_btf/sched_switch")
int BPF_PROG(drfq_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!is_of_higher_class(next))
		return 0;
	/* The CPU may have taken one of our tasks before another task of a higher class woke. */
	if (!is_of_higher_class(prev) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		lose_cpu(bpf_get_smp_processor_id());
	return 0;
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

	if (!t)
		return;
	task_renice(p, t);
	task_reactivate(p, t);
}

void BPF_STRUCT_OPS(drfq_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	task_set_affinity(p, t, cpumask);
	task_reactivate(p, t);
}

void BPF_STRUCT_OPS(drfq_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	task_set_weight(t, cgroup_index_of(to), t->weight);
	task_reactivate(p, t);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t;

	t = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOMEM;
	if (args->fork)
		fork_inherit(t);
	else
		task_load(t);
	t->weight = task_own_weight(p, t);
	t->hw_id = DRFQ_HW_ID_SHARED;
	if (args->fork)
		fork_init(t);
	t->exec_ns = p->se.sum_exec_runtime;
	return 0;
}

void BPF_STRUCT_OPS(drfq_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (!t)
		return;
	task_leave(t);
	if (p->flags & PF_EXITING)
		fork_return_vtime(p, t);
}

void BPF_STRUCT_OPS(drfq_enable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		task_enable(p, t);
}

/* The task changes to another scheduling class, or exits. */
void BPF_STRUCT_OPS(drfq_disable, struct task_struct *p)
{
	struct drfq_cpu *slot = cpu_slot(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	/* If it runs, it goes on as a task of the other class, without a switch. */
	if (slot->pid == (u32)p->pid && !(p->flags & PF_EXITING)) {
		slot_lost(slot);
		task_take_over_dma(slot, t);
	}
	task_quit(p, t);
	throttle_finish(t);
	wake_end(t, false);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(drfq_init)
{
	s32 err = queue_init();

	if (err)
		return err;
	labels_set_valid(true);
	return timer_setup();
}

void BPF_STRUCT_OPS(drfq_exit, struct scx_exit_info *ei)
{
	labels_set_valid(false);
	UEI_RECORD(uei, ei);
}

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
	       .cgroup_set_bandwidth	= (void *)drfq_cgroup_set_bandwidth,
	       .cgroup_set_idle		= (void *)drfq_cgroup_set_idle,
	       .cpu_online		= (void *)drfq_cpu_online,
	       .cpu_offline		= (void *)drfq_cpu_offline,
	       .dump			= (void *)drfq_dump,
	       .dump_cpu		= (void *)drfq_dump_cpu,
	       .dump_task		= (void *)drfq_dump_task,
	       .init			= (void *)drfq_init,
	       .exit			= (void *)drfq_exit,
	       .flags			= SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING |
					  SCX_OPS_ENQ_MIGRATION_DISABLED |
					  SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_ENQ_LAST,
	       .timeout_ms		= 30000,
	       .name			= "drfq");
/* clang-format on */
