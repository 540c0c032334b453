/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sense: how many bytes of memory traffic a packet moved.
 *
 * A per-CPU perf event counts while tasks run; each CPU keeps the value up to
 * which it has charged (per CPU and not per task, so that nothing goes stale
 * when a task migrates). Counters can be read on their own CPU only.
 *
 * Block I/O is charged to the task that submits it: its device moves the bytes
 * while the task is blocked (4.5).
 */
#ifndef DRFQ_PMU_BPF_H
#define DRFQ_PMU_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, 1); /* the loader sets the number of CPUs */
} pmu_events SEC(".maps");

static __always_inline bool pmu_read(struct bpf_perf_event_value *value)
{
	if (!bpf_perf_event_read_value(&pmu_events, BPF_F_CURRENT_CPU, value, sizeof(*value)))
		return true;
	count(DRFQ_EV_PMU_READ_ERRORS);
	return false;
}

static __always_inline void pmu_set_base(struct drfq_cpu *slot,
					 const struct bpf_perf_event_value *value)
{
	slot->base_counter = value->counter;
	slot->base_enabled_ns = value->enabled;
	slot->base_running_ns = value->running;
}

/* A packet starts after the CPU did something else than end one: what it
 * counted meanwhile belongs to nobody. */
static void pmu_start(struct drfq_cpu *slot)
{
	struct bpf_perf_event_value value = {};

	if (pmu_event_bytes && pmu_read(&value))
		pmu_set_base(slot, &value);
}

/* Bytes since the base, which moves to now. On the slot's own CPU only. */
static u64 pmu_take_bytes(struct drfq_cpu *slot)
{
	struct bpf_perf_event_value value = {};
	u64 events, enabled, running;

	if (!pmu_event_bytes || !pmu_read(&value))
		return 0;
	events = value.counter - slot->base_counter;
	enabled = value.enabled - slot->base_enabled_ns;
	running = value.running - slot->base_running_ns;
	if (running < enabled) {
		/* The kernel multiplexes the event: scale, or wait for a
		 * sample if it has not counted at all. */
		count(DRFQ_EV_PMU_MULTIPLEXED);
		if (!running)
			return 0;
		events = events * enabled / running;
	}
	pmu_set_base(slot, &value);
	return events * pmu_event_bytes;
}

#endif /* DRFQ_PMU_BPF_H */
