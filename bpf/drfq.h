/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of dominant resource fair queueing, and nothing else.
 *
 * Pure integer functions: no maps, no kfuncs, no clocks. The same text is
 * compiled for BPF (main.bpf.c) and for the host, where the property tests and
 * the simulator of tests/sim run it.
 *
 * Source: Gao, "Multi-resource Fair Scheduler for Linux", chapter 4 (equations
 * are cited as 4.x), and Ghodsi et al., "Multi-Resource Fair Queueing for
 * Packet Processing" (the three variants).
 *
 * ── Units ───────────────────────────────────────────────────────────────────
 * Virtual time is nanoseconds of dominant resource time at weight 1: running
 * alone for 1 ms on a machine of c CPUs advances a flow of weight 1 by 1/c ms.
 * It is a u64 that may wrap; compare it with drfq_before() only. Each flow keeps
 * a further 32 bits of fraction, so that packets of a few microseconds on a
 * large machine are not rounded to free ones.
 *
 * ── The three variants are one ──────────────────────────────────────────────
 * A flow has one virtual time per resource; its start tag is the larger one.
 * Dovetailing lets them differ without limit, which is a maximum of sums.
 * Delta-bounded pulls the smaller one up to at most delta below the larger.
 * With delta = 0 both are always equal, which charges the maximum of each
 * packet: that is memoryless DRFQ, a sum of maxima.
 */
#ifndef DRFQ_H
#define DRFQ_H

#ifndef __VMLINUX_H__
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
#endif

/* Weight of nice 0, and of a task that nobody configured. */
#define DRFQ_WEIGHT_ONE (1U << 20)

/* The smallest weight: 1/16384. What is less is rounded up to it. */
#define DRFQ_WEIGHT_MIN 64U

/*
 * The most that one charge may add (ns; 13 days). Beyond it the two's
 * complement distance that drfq_before() relies on could be exhausted by a few
 * absurd packets; no real packet comes near.
 */
#define DRFQ_CHARGE_MAX_NS (1ULL << 50)

/* Where V begins: above any wake credit, so that tags stay clear of zero,
 * which the memory controller reserves for unattributed traffic. */
#define DRFQ_V_ORIGIN_NS (1ULL << 40)

/* delta of dovetailing DRFQ: no bound. */
#define DRFQ_DELTA_NONE_NS (1ULL << 62)

/* Virtual time is written to the controller's registers in units of 2^22 ns,
 * about one slice, to smooth random differences (thesis 4.5.3). */
#define DRFQ_REGISTER_SHIFT 22

/*
 * The machine and the constants of the algorithm. Constant while a scheduler
 * is loaded.
 */
struct drfq_conf {
	/* c: CPUs that the scheduler manages, at least 1. */
	u32 nr_cpus;
	/* 4.5.2: credit idle CPU time to the running packets. */
	u32 best_effort;
	/* 1/m: ns of the whole memory bandwidth that one byte takes, 32.32 fixed
	 * point. 0: memory traffic is not charged. */
	u64 mem_ns_per_byte_q32;
	/* Bound of the gap between a flow's virtual times; 0 is memoryless. */
	u64 delta_ns;
	/* C of 4.7: how far behind V a woken flow may start. */
	u64 wake_credit_ns;
	/* K of 4.10: how far beyond V a woken flow may still be dispatched. */
	u64 hold_ns;
	/* Algorithm 2: how far beyond V a flow may start its next packet. */
	u64 cap_ns;
};

/* A flow: one task's account. Zero is not valid; start with drfq_flow_new(). */
struct drfq_flow {
	/* Virtual time on each resource (ns). */
	u64 cpu_vt;
	u64 mem_vt;
	/* What S was at the last wake-up with DMA, CPU time beyond V left out:
	 * the debt that 4.10 makes a task wait for. */
	u64 debt_vt;
	/* 2^-32 ns that the times above have not been charged yet. */
	u32 cpu_frac;
	u32 mem_frac;
	/* 2^-32 ns of time on the memory bus, before the weight. */
	u32 bus_frac;
	/* w, DRFQ_WEIGHT_ONE is 1; never 0. */
	u32 weight;
};

#define DRFQ_FN static inline __attribute__((always_inline, unused))

/* Whether virtual time @a is before @b, across a wrap. */
DRFQ_FN bool drfq_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

DRFQ_FN u64 drfq_later(u64 a, u64 b)
{
	return drfq_before(a, b) ? b : a;
}

DRFQ_FN u64 drfq_earlier(u64 a, u64 b)
{
	return drfq_before(a, b) ? a : b;
}

/*
 * @amount x @rate (32.32 fixed point) plus *@frac / 2^32, in whole units; the
 * new remainder is left in *@frac. Saturates at DRFQ_CHARGE_MAX_NS. There is no
 * 128-bit arithmetic in BPF, hence the long multiplication.
 */
DRFQ_FN u64 drfq_scale(u64 amount, u64 rate_q32, u32 *frac)
{
	u64 ah = amount >> 32, al = amount & 0xffffffffULL;
	u64 rh = rate_q32 >> 32, rl = rate_q32 & 0xffffffffULL;
	u64 low, mid, sum;

	/* Each part is below 2^64; the parts that would overflow a sum are
	 * caught before they are added. */
	if (ah && rh >= DRFQ_CHARGE_MAX_NS >> 32)
		return DRFQ_CHARGE_MAX_NS;
	if (ah * rh >= DRFQ_CHARGE_MAX_NS >> 32)
		return DRFQ_CHARGE_MAX_NS;
	low = al * rl + *frac;
	mid = ah * rl;
	sum = al * rh;
	if (mid >= DRFQ_CHARGE_MAX_NS || sum >= DRFQ_CHARGE_MAX_NS)
		return DRFQ_CHARGE_MAX_NS;
	sum += mid + ((ah * rh) << 32) + (low >> 32);
	if (sum >= DRFQ_CHARGE_MAX_NS)
		return DRFQ_CHARGE_MAX_NS;
	*frac = (u32)low;
	return sum;
}

/* S: the virtual start time of the flow's next packet. */
DRFQ_FN u64 drfq_start(const struct drfq_flow *f)
{
	return drfq_later(f->cpu_vt, f->mem_vt);
}

/* 4.8: a new flow starts at V. @weight 0 is taken as the minimum. */
DRFQ_FN void drfq_flow_new(struct drfq_flow *f, u64 v, u32 weight)
{
	f->cpu_vt = v;
	f->mem_vt = v;
	f->debt_vt = v;
	f->cpu_frac = 0;
	f->mem_frac = 0;
	f->bus_frac = 0;
	f->weight = weight < DRFQ_WEIGHT_MIN ? DRFQ_WEIGHT_MIN : weight;
}

/* Virtual time of 1 ns of resource time that @divisor units share. */
DRFQ_FN u64 drfq_rate_q32(u32 weight, u32 divisor)
{
	return ((u64)DRFQ_WEIGHT_ONE << 32) / ((u64)weight * divisor);
}

/* Delta-bounding: neither time is more than delta behind the other. */
DRFQ_FN void drfq_bound(struct drfq_flow *f, u64 delta_ns)
{
	u64 floor = drfq_start(f) - delta_ns;

	f->cpu_vt = drfq_later(f->cpu_vt, floor);
	f->mem_vt = drfq_later(f->mem_vt, floor);
}

/*
 * 4.1 and 4.5.2: the number of CPUs that running time is divided by.
 * @busy_cpus: CPUs that run a packet now, the flow's own included; 0 if unknown.
 */
DRFQ_FN u32 drfq_cpu_divisor(const struct drfq_conf *c, u32 busy_cpus)
{
	if (c->best_effort && busy_cpus && busy_cpus < c->nr_cpus)
		return busy_cpus;
	return c->nr_cpus ? c->nr_cpus : 1;
}

/*
 * 4.1-4.4: charges a running packet, or a part of one, to its flow.
 * @run_ns: R, time on a CPU. @bytes: b, memory traffic of the packet.
 * A blocked packet (4.5) is one with @run_ns = 0.
 */
DRFQ_FN void drfq_charge(struct drfq_flow *f, const struct drfq_conf *c, u64 run_ns, u64 bytes,
			 u32 busy_cpus)
{
	u64 bus_ns;

	if (run_ns)
		f->cpu_vt +=
			drfq_scale(run_ns, drfq_rate_q32(f->weight, drfq_cpu_divisor(c, busy_cpus)),
				   &f->cpu_frac);
	if (bytes && c->mem_ns_per_byte_q32) {
		/* In two steps: one rate of both would overflow where a low
		 * weight meets a slow memory. */
		bus_ns = drfq_scale(bytes, c->mem_ns_per_byte_q32, &f->bus_frac);
		f->mem_vt += drfq_scale(bus_ns, drfq_rate_q32(f->weight, 1), &f->mem_frac);
	}
	drfq_bound(f, c->delta_ns);
}

/* 4.6: V never goes back. @min_start: the smallest S of all running packets. */
DRFQ_FN u64 drfq_advance(u64 v, u64 min_start)
{
	return drfq_later(v, min_start);
}

/*
 * A flow that runs without a pause falls behind V no further than a sleeping
 * one: what its weight is worth beyond one CPU it cannot use now, and must not
 * be owed to it later.
 */
DRFQ_FN void drfq_lift(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	u64 floor = v - c->wake_credit_ns;

	f->cpu_vt = drfq_later(f->cpu_vt, floor);
	f->mem_vt = drfq_later(f->mem_vt, floor);
}

/* Moves the flow to where V is ahead by @by_ns, of what it was (or behind, as
 * two's complement). */
DRFQ_FN void drfq_shift(struct drfq_flow *f, u64 by_ns)
{
	f->cpu_vt += by_ns;
	f->mem_vt += by_ns;
	f->debt_vt += by_ns;
}

/*
 * 4.5 and 4.7: a blocked flow becomes runnable. @dma_bytes moved for it while
 * it was blocked. Each virtual time is raised to V - C, which forgets what the
 * flow did not use while it slept beyond C; debt beyond V is kept, uncapped.
 */
DRFQ_FN void drfq_wake(struct drfq_flow *f, const struct drfq_conf *c, u64 v, u64 dma_bytes)
{
	u64 start = drfq_start(f), mem_vt = f->mem_vt;

	drfq_charge(f, c, 0, dma_bytes, 0);
	if (dma_bytes) {
		f->debt_vt = drfq_later(f->debt_vt, drfq_earlier(start, v)) + f->mem_vt - mem_vt;
		f->debt_vt = drfq_earlier(f->debt_vt, drfq_start(f));
	}
	drfq_lift(f, c, v);
}

/*
 * Algorithm 2: before its next packet a running flow is at most cap beyond V,
 * so that what it used while nobody contended cannot starve it for long.
 *
 * Two departures from the algorithm as printed, without which weights are not
 * honoured. It is applied when a packet starts, not when it ends: a packet that
 * is longer than the cap (a low weight makes any slice one) must be paid for in
 * full. And it is for flows that nobody contends with: a packet that others
 * queue for is the earliest of them, so that it is V that lags (a flow whose
 * weight is worth more than one CPU holds it back), and drfq_contended_v() is
 * where V must go instead.
 */
DRFQ_FN void drfq_cap(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	u64 limit = v + c->cap_ns;

	if (drfq_before(limit, f->cpu_vt))
		f->cpu_vt = limit;
	if (drfq_before(limit, f->mem_vt))
		f->mem_vt = limit;
}

/* Where V is at least if a packet that others queue for starts at @start. */
DRFQ_FN u64 drfq_contended_v(const struct drfq_conf *c, u64 start)
{
	return start - c->cap_ns;
}

/*
 * 4.10: whether a woken flow must wait. The thesis compares S. Here debt_vt
 * stands for it, which is S unless CPU time put the flow beyond V: at a low
 * weight a single slice does that, and a little DMA would then hold the task
 * from an idle CPU for most of its time (4.5.1 argues with DMA alone).
 */
DRFQ_FN bool drfq_held(const struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	return drfq_before(v + c->hold_ns, f->debt_vt);
}

/*
 * 4.9: weight of a nice value in the thesis: 1 + nice for nice >= 0 (a higher
 * value is a LARGER weight, unlike the kernel's), 1 / (1 - nice) below.
 */
DRFQ_FN u32 drfq_weight_thesis(s32 nice)
{
	if (nice >= 0)
		return (u32)(1 + nice) * DRFQ_WEIGHT_ONE;
	return DRFQ_WEIGHT_ONE / (u32)(1 - nice);
}

#endif /* DRFQ_H */
