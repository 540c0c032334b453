/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A symbol for each inline function of drfq.h, so that Rust can call them.
 */
#include <stddef.h>

#include "drfq.h"
#include "limits.h"

const u32 shim_weight_one = DRFQ_WEIGHT_ONE;
const u32 shim_weight_min = DRFQ_WEIGHT_MIN;
const u64 shim_charge_max_ns = DRFQ_CHARGE_MAX_NS;
const u64 shim_v_origin_ns = DRFQ_V_ORIGIN_NS;
const u32 shim_budget_part = DRFQ_BUDGET_PART;
const u64 shim_delta_none_ns = DRFQ_DELTA_NONE_NS;

/* The layout that the structures of ffi.rs must have. */
const u64 shim_layout[] = {
	sizeof(struct drfq_conf),
	offsetof(struct drfq_conf, nr_cpus),
	offsetof(struct drfq_conf, charging),
	offsetof(struct drfq_conf, mem_ns_per_byte_q32),
	offsetof(struct drfq_conf, delta_ns),
	offsetof(struct drfq_conf, wake_credit_ns),
	offsetof(struct drfq_conf, hold_ns),
	offsetof(struct drfq_conf, cap_ns),
	offsetof(struct drfq_conf, bus_credit_ns),
	sizeof(struct drfq_flow),
	offsetof(struct drfq_flow, cpu_vt),
	offsetof(struct drfq_flow, mem_vt),
	offsetof(struct drfq_flow, debt_vt),
	offsetof(struct drfq_flow, bus_vt),
	offsetof(struct drfq_flow, cpu_frac),
	offsetof(struct drfq_flow, mem_frac),
	offsetof(struct drfq_flow, bus_frac),
	offsetof(struct drfq_flow, weight),
};

bool shim_before(u64 a, u64 b)
{
	return drfq_before(a, b);
}

u64 shim_later(u64 a, u64 b)
{
	return drfq_later(a, b);
}

u64 shim_earlier(u64 a, u64 b)
{
	return drfq_earlier(a, b);
}

u64 shim_scale(u64 amount, u64 rate_q32, u32 *frac)
{
	return drfq_scale(amount, rate_q32, frac);
}

u64 shim_start(const struct drfq_flow *f)
{
	return drfq_start(f);
}

void shim_flow_new(struct drfq_flow *f, u64 v, u64 bus, u32 weight)
{
	drfq_flow_new(f, v, bus, weight);
}

u64 shim_rate_q32(u32 weight, u32 divisor)
{
	return drfq_rate_q32(weight, divisor);
}

void shim_bound(struct drfq_flow *f, u64 delta_ns)
{
	drfq_bound(f, delta_ns);
}

u32 shim_cpu_divisor(const struct drfq_conf *c, u32 busy_cpus)
{
	return drfq_cpu_divisor(c, busy_cpus);
}

static struct drfq_load load_of(u32 busy_cpus, bool waiting)
{
	struct drfq_load load = {.busy_cpus = busy_cpus, .waiting = waiting};

	return load;
}

u64 shim_charge(struct drfq_flow *f, const struct drfq_conf *c, u64 run_ns, u64 bytes,
		u32 busy_cpus, bool waiting)
{
	return drfq_charge(f, c, run_ns, bytes, load_of(busy_cpus, waiting));
}

void shim_charge_dma(struct drfq_flow *f, const struct drfq_conf *c, u64 bytes, u32 busy_cpus,
		     bool waiting)
{
	drfq_charge_dma(f, c, bytes, load_of(busy_cpus, waiting));
}

u64 shim_bus_credit(const struct drfq_flow *f, const struct drfq_conf *c)
{
	return drfq_bus_credit(f, c);
}

u64 shim_bus_advance(const struct drfq_flow *f, const struct drfq_conf *c, u64 bus_v, u64 bus_ns)
{
	return drfq_bus_advance(f, c, bus_v, bus_ns);
}

void shim_bus_lift(struct drfq_flow *f, const struct drfq_conf *c, u64 bus_v)
{
	drfq_bus_lift(f, c, bus_v);
}

u64 shim_bus_inherited(const struct drfq_flow *ended, const struct drfq_flow *heir,
		       const struct drfq_conf *c, u64 bus_v)
{
	return drfq_bus_inherited(ended, heir, c, bus_v);
}

u64 shim_register_vtime(const struct drfq_flow *f, const struct drfq_conf *c)
{
	return drfq_register_vtime(f, c);
}

u64 shim_advance(u64 v, u64 min_start)
{
	return drfq_advance(v, min_start);
}

void shim_move(struct drfq_flow *f, const struct drfq_conf *c, u64 v, u64 from, u64 to)
{
	drfq_move(f, c, v, from, to);
}

void shim_lift(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	drfq_lift(f, c, v);
}

void shim_wake(struct drfq_flow *f, const struct drfq_conf *c, u64 v, u64 dma_bytes, u32 busy_cpus,
	       bool waiting)
{
	drfq_wake(f, c, v, dma_bytes, load_of(busy_cpus, waiting));
}

void shim_cap(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	drfq_cap(f, c, v);
}

u64 shim_contended_v(const struct drfq_conf *c, u64 start)
{
	return drfq_contended_v(c, start);
}

bool shim_held(const struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	return drfq_held(f, c, v);
}

u32 shim_weight_thesis(s32 nice)
{
	return drfq_weight_thesis(nice);
}
