/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The periodic timer. It wakes idle CPUs for tasks that a race left waiting, held or
 * queued, within one period. It also measures the length of a jiffy, by which the
 * kernel tells how long a task has waited (rescue.bpf.h).
 */
#ifndef DRFQ_TIMER_BPF_H
#define DRFQ_TIMER_BPF_H

#define TIMER_PERIOD_NS 100000000

/* The period while quotas or paces exist: throttled tasks wait for it. */
#define TIMER_LIMITS_PERIOD_NS 5000000

/* When the timer does its usual work next (scx_bpf_now(), ns). */
static u64 timer_due_ns;

/* Not 0: a pace has changed since the timer looked at all throttled tasks. */
static u32 timer_hurries;

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timer_map SEC(".maps");

static void timer_work(void)
{
	if (hold_update_hint()) {
		hold_rearm();
		hold_release_overdue();
		hold_kick_idle(!cpus_busy(-1));
	}
	queue_correct_marks();
	kick_idle_for_queued((s32)bpf_get_smp_processor_id());
	kick_idle_for_pinned();
	rescue_measure_jiffy();
}

static int timer_fire(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = scx_bpf_now();
	bool due = !drfq_before(now, timer_due_ns), hurries = READ_ONCE(timer_hurries);

	if (hurries)
		WRITE_ONCE(timer_hurries, 0);
	if (scx_bpf_dsq_nr_queued(DRFQ_DSQ_THROTTLED) > 0)
		throttle_release(due || hurries);
	if (due) {
		timer_due_ns = now + TIMER_PERIOD_NS;
		/* Older verifiers treat the callback as sleepable, because ops.init is. */
		bpf_rcu_read_lock();
		timer_work();
		bpf_rcu_read_unlock();
	}
	bpf_timer_start(timer, limits_exist() ? TIMER_LIMITS_PERIOD_NS : TIMER_PERIOD_NS, 0);
	return 0;
}

/* Makes the timer look at all throttled tasks now, and often from now on. */
static void timer_hurry(void)
{
	u32 key = 0;
	struct timer_slot *w = bpf_map_lookup_elem(&timer_map, &key);

	WRITE_ONCE(timer_hurries, 1);
	if (w)
		bpf_timer_start(&w->timer, 0, 0);
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
