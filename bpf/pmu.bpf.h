/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The PMU: how many bytes of memory traffic a running packet moved.
 *
 * One perf event per CPU counts the traffic. Each slot stores the counter's base,
 * the value up to which the CPU has charged its packets. The base belongs to the
 * CPU, not to the task, so a migration does not invalidate it. A CPU can read only
 * its own counter.
 */
#ifndef DRFQ_PMU_BPF_H
#define DRFQ_PMU_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, 1); /* the loader sets the number of CPUs */
} pmu_events SEC(".maps");

/* Reads this CPU's counter. Returns false, and counts the error, if that fails. */
static __always_inline bool pmu_read(struct bpf_perf_event_value *value)
{
	if (!bpf_perf_event_read_value(&pmu_events, BPF_F_CURRENT_CPU, value, sizeof(*value)))
		return true;
	count(DRFQ_EV_PMU_READ_ERRORS);
	return false;
}

/* What the counter has counted up to @value is charged, or never will be. */
static __always_inline void pmu_set_base(struct drfq_cpu *slot,
					 const struct bpf_perf_event_value *value)
{
	slot->base_counter = value->counter;
	slot->base_enabled_ns = value->enabled;
	slot->base_running_ns = value->running;
}

/*
 * A packet starts, but no packet of ours ended just before it on this CPU. What the
 * counter has counted since the last base belongs to no task.
 */
static void pmu_start(struct drfq_cpu *slot)
{
	struct bpf_perf_event_value value = {};

	if (pmu_event_bytes && pmu_read(&value))
		pmu_set_base(slot, &value);
}

/* Returns the bytes since the base, and moves the base. Only on the slot's own CPU. */
static u64 pmu_take_bytes(struct drfq_cpu *slot)
{
	struct bpf_perf_event_value value = {};
	u64 events, enabled, running;

	if (!pmu_event_bytes || !pmu_read(&value))
		return 0;
	/* What was counted before the scheduler was loaded belongs to no packet. Nor
	 * does what a counter has counted that the agent has put in a dead one's place. */
	if (!slot->base_enabled_ns || value.enabled < slot->base_enabled_ns) {
		pmu_set_base(slot, &value);
		return 0;
	}
	events = value.counter - slot->base_counter;
	enabled = value.enabled - slot->base_enabled_ns;
	running = value.running - slot->base_running_ns;
	if (running < enabled) {
		/* The kernel multiplexes the event. Scale what it counted; if it
		 * has not counted at all, leave the base for the next sample. */
		count(DRFQ_EV_PMU_MULTIPLEXED);
		if (!running)
			return 0;
		events = events * enabled / running;
	}
	pmu_set_base(slot, &value);
	return events * pmu_event_bytes;
}

#endif /* DRFQ_PMU_BPF_H */
