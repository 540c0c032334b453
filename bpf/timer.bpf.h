/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The periodic timer. It does what must happen even if no CPU has an event.
 *
 * - Rescue. Fair queueing starves no task, but may serve a very low weight among
 *   very high ones less than once in 30 s. After that time the kernel's watchdog
 *   ends the scheduler. So a task that has waited for rescue_ns moves to the front
 *   of its queue once. It is charged as usual.
 * - Idle CPUs. A held or queued task that a race left waiting beside an idle CPU
 *   gets that CPU within one period.
 */
#ifndef DRFQ_TIMER_BPF_H
#define DRFQ_TIMER_BPF_H

#define TIMER_PERIOD_NS 100000000
#define RESCUE_PERIODS 10 /* timer periods between two rescues */

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timer_map SEC(".maps");

static u32 timer_periods;

/* Time of the last rescue, on both clocks. */
static u64 rescued_at_ns, rescued_at_jiffies;

/*
 * Returns the length of a jiffy (ns), measured with both clocks since the last
 * rescue; 0 the first time. CONFIG_HZ is not used, because it needs a kernel
 * configuration that libbpf can read.
 */
static u64 jiffy_ns(void)
{
	u64 now = bpf_ktime_get_ns(), jiffies = bpf_jiffies64();
	u64 ns = now - rescued_at_ns, ticks = jiffies - rescued_at_jiffies;
	bool first = !rescued_at_ns;

	rescued_at_ns = now;
	rescued_at_jiffies = jiffies;
	return first || !ticks ? 0 : ns / ticks;
}

/*
 * Moves tasks to the front of @dsq that became runnable at or before @jiffies and
 * have not run since.
 */
static void rescue_queue(u64 dsq, u64 jiffies)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq);
	u64 front = vtime_now();

	if (!p)
		return;
	front = drfq_earlier(front, p->scx.dsq_vtime) - 2 * drfq_conf()->wake_credit_ns;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (drfq_before(jiffies, p->scx.runnable_at) ||
		    !drfq_before(front, p->scx.dsq_vtime))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, front);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq, 0))
			count(DRFQ_EV_RESCUED);
	}
}

/* Rescues the starved tasks of all queues. */
static void rescue(void)
{
	u64 jiffy = jiffy_ns(), since;
	s32 cpu;
	u32 llc;

	if (!jiffy)
		return;
	since = rescued_at_jiffies - rescue_ns / jiffy;
	bpf_for(cpu, 0, nr_cpu_ids) {
		if (queue_pinned_wait(cpu))
			rescue_queue(DRFQ_DSQ_CPU + cpu, since);
	}
	bpf_for(llc, 0, nr_llcs) {
		rescue_queue(DRFQ_DSQ_LLC + llc, since);
		rescue_queue(DRFQ_DSQ_PARTIAL + llc, since);
	}
}

static int timer_fire(void *map, int *key, struct bpf_timer *timer)
{
	/* Older verifiers treat the callback as sleepable, because ops.init is. */
	bpf_rcu_read_lock();
	if (hold_update_hint()) {
		hold_release_overdue();
		hold_kick_idle(!cpus_busy(-1));
	}
	kick_idle_for_queued();
	kick_idle_for_pinned();
	if (++timer_periods % RESCUE_PERIODS == 0)
		rescue();
	bpf_rcu_read_unlock();
	bpf_timer_start(timer, TIMER_PERIOD_NS, 0);
	return 0;
}

/* Starts the timer. Returns 0 or a negative errno. */
static s32 timer_setup(void)
{
	u32 key = 0;
	struct timer_slot *w = bpf_map_lookup_elem(&timer_map, &key);
	s32 err;

	if (!w)
		return -ENOENT;
	err = bpf_timer_init(&w->timer, &timer_map, CLOCK_MONOTONIC);
	if (err)
		return err;
	bpf_timer_set_callback(&w->timer, timer_fire);
	return bpf_timer_start(&w->timer, TIMER_PERIOD_NS, 0);
}

#endif /* DRFQ_TIMER_BPF_H */
