/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The PMU: how many bytes of memory traffic a running packet moved.
 *
 * Up to two perf events per CPU count the traffic, as a rule what is read and what is
 * written. Each slot stores the base of each counter, the value up to which the CPU has
 * charged its packets. The base belongs to the CPU, not to the task, so a migration
 * does not invalidate it. A CPU can read only its own counters. The kinds of cores of a
 * hybrid CPU may have different events.
 */
#ifndef DRFQ_PMU_BPF_H
#define DRFQ_PMU_BPF_H

struct pmu_events {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, 1); /* the loader sets the number of CPUs */
};

/* The first and the second event of each CPU. */
struct pmu_events pmu_first SEC(".maps");
struct pmu_events pmu_second SEC(".maps");

/* Reads this CPU's counter in @map. Returns false, and counts the error, if that fails. */
static __always_inline bool pmu_read(void *map, struct bpf_perf_event_value *value)
{
	if (!bpf_perf_event_read_value(map, BPF_F_CURRENT_CPU, value, sizeof(*value)))
		return true;
	count(DRFQ_EV_PMU_READ_ERRORS);
	return false;
}

/* What the counter has counted up to @value is charged, or never will be. */
static __always_inline void pmu_set_base(struct drfq_counter *base,
					 const struct bpf_perf_event_value *value)
{
	base->events = value->counter;
	base->enabled_ns = value->enabled;
	base->running_ns = value->running;
}

static __always_inline void pmu_start_one(void *map, struct drfq_counter *base)
{
	struct bpf_perf_event_value value = {};

	if (base->bytes_q8 && pmu_read(map, &value))
		pmu_set_base(base, &value);
}

/*
 * A packet starts, but no packet of ours ended just before it on this CPU. What the
 * counters have counted since the last base belongs to no task.
 */
static __noinline void pmu_start(struct drfq_cpu *slot)
{
	slot->base_valid = true;
	if (pmu_nr_events > 0)
		pmu_start_one(&pmu_first, &slot->counters[0]);
	if (pmu_nr_events > 1)
		pmu_start_one(&pmu_second, &slot->counters[1]);
}

/* What a counter has counted is multiplied by so much at most. */
#define PMU_SCALE_MAX 8

/* Returns the bytes since the base (1/256 byte), and moves the base. */
static __always_inline u64 pmu_take_one(void *map, struct drfq_counter *base)
{
	struct bpf_perf_event_value value = {};
	u64 events, enabled, running;

	if (!base->bytes_q8 || !pmu_read(map, &value))
		return 0;
	/* What was counted before the scheduler was loaded belongs to no packet. Nor does
	 * what a counter has counted that the agent has put in a dead one's place: a younger
	 * one, or one that has counted less. */
	if (!base->enabled_ns || value.enabled < base->enabled_ns || value.counter < base->events) {
		pmu_set_base(base, &value);
		return 0;
	}
	events = value.counter - base->events;
	enabled = value.enabled - base->enabled_ns;
	running = value.running - base->running_ns;
	if (running < enabled) {
		/* The kernel multiplexes the event. Scale what it counted; if it
		 * has not counted at all, leave the base for the next sample. One
		 * that had no counter for long tells little of that time. */
		count(DRFQ_EV_PMU_MULTIPLEXED);
		if (!running)
			return 0;
		if (enabled / PMU_SCALE_MAX > running)
			enabled = running * PMU_SCALE_MAX;
		events = events * enabled / running;
	}
	pmu_set_base(base, &value);
	return events * base->bytes_q8;
}

/* The part of pmu_take_bytes() where there are counters. */
static __noinline u64 pmu_take_counted(struct drfq_cpu *slot)
{
	u64 bytes_q8 = pmu_take_one(&pmu_first, &slot->counters[0]);

	if (pmu_nr_events > 1)
		bytes_q8 += pmu_take_one(&pmu_second, &slot->counters[1]);
	return bytes_q8 >> 8;
}

/* Returns the bytes since the base, and moves the base. Only on the slot's own CPU. */
static __always_inline u64 pmu_take_bytes(struct drfq_cpu *slot)
{
	return pmu_nr_events ? pmu_take_counted(slot) : 0;
}

/*
 * Returns the bytes of the packet that runs on @cpu, with @slot, since the base (pmu_take_bytes()).
 * Another CPU cannot read the counter: it ends a packet when the kernel changes the task, and
 * charges one when the tick of @cpu rests (nohz_full). The base stays, so nothing is lost.
 */
static __always_inline u64 pmu_take_packet(struct drfq_cpu *slot, s32 cpu)
{
	if (cpu != bpf_get_smp_processor_id()) {
		count(DRFQ_EV_REMOTE_UPDATES);
		return 0;
	}
	/* Another CPU made a running task of a higher class one of ours. */
	if (!slot->base_valid) {
		pmu_start(slot);
		return 0;
	}
	return pmu_take_bytes(slot);
}

#endif /* DRFQ_PMU_BPF_H */
