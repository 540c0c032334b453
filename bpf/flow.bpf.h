/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of drfq.h as global BPF functions, with this scheduler's
 * configuration and V. The verifier checks a global function once by itself. If
 * they were inlined, their branches would multiply the paths through each program:
 * select_cpu alone would take 357,000 verified instructions. Global functions must
 * return a value, so those without one return 0.
 */
#ifndef DRFQ_FLOW_BPF_H
#define DRFQ_FLOW_BPF_H

/* B (ns): the system time of the memory account (drfq_bus_advance()). */
struct shared_u64 system_bus_vtime_ns = {DRFQ_V_ORIGIN_NS};

/* Returns B (ns). */
static __always_inline u64 bus_vtime_now(void)
{
	return READ_ONCE(system_bus_vtime_ns.value);
}

/* What drfq_charge() must know of the CPUs. @waiting: a task waits for this CPU. */
static __always_inline struct drfq_load flow_load(bool waiting)
{
	struct drfq_load load = {.busy_cpus = READ_ONCE(busy_cpus.value), .waiting = waiting};

	return load;
}

/* The part of flow_charge() that changes something. */
__noinline u64 flow_charge_some(struct drfq_flow *f __arg_nonnull, u64 run_ns, u64 bytes, u32 busy,
				bool waiting)
{
	const struct drfq_conf *c = drfq_conf();
	struct drfq_load load = {.busy_cpus = busy, .waiting = waiting};
	u64 bus_ns = drfq_charge(f, c, run_ns, bytes, load);

	if (!bus_ns || c->charging != DRFQ_CHARGE_CONTENDED)
		return bus_ns;
	advance_to(&system_bus_vtime_ns.value, drfq_bus_advance(f, c, bus_vtime_now(), bus_ns));
	drfq_bus_lift(f, c, bus_vtime_now());
	return bus_ns;
}

/*
 * drfq_charge(): 4.1-4.4. @run_ns: R (ns). @bytes: b. Returns what bus_vt grew by (ns of
 * virtual time). B is written only by the flow that has the latest bus_vt. Beside idle CPUs
 * most packets cost nothing.
 */
static __always_inline u64 flow_charge(struct drfq_flow *f, u64 run_ns, u64 bytes,
				       struct drfq_load load)
{
	if (!bytes && !drfq_charges_time(drfq_conf(), load))
		return 0;
	return flow_charge_some(f, run_ns, bytes, load.busy_cpus, load.waiting);
}

/* B follows @f, for which a device moved bytes. */
static __always_inline void bus_follow(const struct drfq_flow *f)
{
	const struct drfq_conf *c = drfq_conf();

	if (c->charging == DRFQ_CHARGE_CONTENDED)
		advance_to(&system_bus_vtime_ns.value, drfq_bus_follow(f, c, bus_vtime_now()));
}

/* drfq_charge_dma(): 4.5, for a flow that runs. @bytes: b. @busy, @waiting: struct drfq_load. */
__noinline int flow_charge_dma(struct drfq_flow *f __arg_nonnull, u64 bytes, u32 busy, bool waiting)
{
	struct drfq_load load = {.busy_cpus = busy, .waiting = waiting};

	drfq_charge_dma(f, drfq_conf(), bytes, load);
	bus_follow(f);
	return 0;
}

/* drfq_wake(): 4.7, where no device moved bytes. @v: V (ns). */
static __always_inline void flow_wake(struct drfq_flow *f, u64 v)
{
	drfq_wake(f, drfq_conf(), v, 0, flow_load(false));
	drfq_bus_lift(f, drfq_conf(), bus_vtime_now());
}

/* drfq_wake(): 4.5 and 4.7. @v: V (ns). @dma_bytes: traffic of devices. */
__noinline int flow_wake_dma(struct drfq_flow *f __arg_nonnull, u64 v, u64 dma_bytes, bool waiting)
{
	drfq_wake(f, drfq_conf(), v, dma_bytes, flow_load(waiting));
	drfq_bus_lift(f, drfq_conf(), bus_vtime_now());
	if (dma_bytes)
		bus_follow(f);
	return 0;
}

/* drfq_cap(): Algorithm 2. */
__noinline int flow_cap(struct drfq_flow *f __arg_nonnull)
{
	drfq_cap(f, drfq_conf(), vtime_now());
	return 0;
}

/* drfq_lift(): at least @v (ns) less C. */
__noinline int flow_lift(struct drfq_flow *f __arg_nonnull, u64 v)
{
	drfq_lift(f, drfq_conf(), v);
	return 0;
}

/* drfq_move(): from a CPU whose packet has S = @from to one with S = @to (ns). */
__noinline int flow_move(struct drfq_flow *f __arg_nonnull, u64 from, u64 to)
{
	drfq_move(f, drfq_conf(), vtime_now(), from, to);
	return 0;
}

/* drfq_inherited(): S of the heir of a flow that ends (ns). */
__noinline u64 flow_inherited(struct drfq_flow *ended __arg_nonnull,
			      struct drfq_flow *heir __arg_nonnull, u64 v)
{
	return drfq_inherited(ended, heir, drfq_conf(), v);
}

/* drfq_reweigh(). @v: the V of its CPU (ns). */
__noinline int flow_reweigh(struct drfq_flow *f __arg_nonnull, u64 v, u32 old, u32 weight)
{
	if (weight)
		drfq_reweigh(f, v, bus_vtime_now(), old, weight);
	return 0;
}

/* drfq_bus_inherited(): bus_vt of the heir of a flow that ends (ns). */
__noinline u64 flow_bus_inherited(struct drfq_flow *ended __arg_nonnull,
				  struct drfq_flow *heir __arg_nonnull)
{
	return drfq_bus_inherited(ended, heir, drfq_conf(), bus_vtime_now());
}

#endif /* DRFQ_FLOW_BPF_H */
