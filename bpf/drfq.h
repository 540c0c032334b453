/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of dominant resource fair queueing (DRFQ).
 *
 * All functions are pure and use integers only: no maps, no kfuncs, no clocks.
 * BPF (main.bpf.c) and the host (tests/sim) compile the same text, so the
 * property tests and the simulator run what the kernel runs.
 *
 * docs/reference/glossary.md defines the symbols S, F, V, C, K, D, R, b, c, m, w
 * and delta. Sources: Gao, "Multi-resource Fair Scheduler for Linux", chapter 4
 * (the thesis; its equations are cited as 4.x), and Ghodsi et al., "Multi-Resource
 * Fair Queueing for Packet Processing", SIGCOMM 2012 (the three variants).
 *
 * ── Units ───────────────────────────────────────────────────────────────────
 * Virtual time counts nanoseconds of dominant resource time at weight 1. A task
 * of weight 1 that runs for 1 ms while c CPUs are busy advances by 1/c ms.
 * Virtual times are u64 and may wrap, so compare them with drfq_before() only.
 * Each flow carries another 32 bits of fraction. Without them, a packet of a few
 * microseconds on a large machine would be rounded down to a free one.
 *
 * ── One rule for three variants ─────────────────────────────────────────────
 * A flow has one virtual time per resource. Its S is the later of the two.
 * - Dovetailing: the two may differ without limit. S is a maximum of sums.
 * - Delta-bounded: the earlier one is raised to at most delta behind the later.
 * - Memoryless: delta is 0, so both are always equal. Each packet is charged its
 *   own maximum, and S is a sum of maxima.
 *
 * ── Two accounts ────────────────────────────────────────────────────────────
 * With DRFQ_CHARGE_CONTENDED, S orders the run queues alone, and a flow is charged
 * only while CPUs are contended. A third virtual time, bus_vt, is charged for all
 * memory traffic and for nothing else. A memory controller serves by bus_vt. Its
 * system time is B. No CPU time enters bus_vt or B, so weights of memory hold
 * however many CPUs idle. docs/explanation/two-accounts.md has the reasons and the
 * bound.
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

/* The weight 1 (nice 0), in the fixed-point unit of all weights. */
#define DRFQ_WEIGHT_ONE (1U << 20)

/* The smallest weight, 1/16384. Smaller ones are rounded up to it. */
#define DRFQ_WEIGHT_MIN 64U

/*
 * The most that one charge adds (ns of virtual time; 13 days). drfq_before()
 * compares distances below 2^63 ns; this limit keeps even absurd packets below.
 */
#define DRFQ_CHARGE_MAX_NS (1ULL << 50)

/*
 * V when the scheduler starts (ns). It exceeds every wake credit, so no S is 0:
 * the memory controller reserves virtual time 0 for unattributed traffic.
 */
#define DRFQ_V_ORIGIN_NS (1ULL << 40)

/* When a flow's CPU time and memory traffic count in S. */
enum drfq_charging {
	/* Always; running time is divided by c (4.1). */
	DRFQ_CHARGE_ALWAYS,
	/* Always; running time is divided by the busy CPUs (4.5.2). */
	DRFQ_CHARGE_BUSY,
	/* Only while CPUs are contended. Memory has an account of its own. */
	DRFQ_CHARGE_CONTENDED,
};

/* The delta of dovetailing: no bound (ns). */
#define DRFQ_DELTA_NONE_NS (1ULL << 62)

/*
 * The memory controller's registers hold virtual time in units of 2^22 ns by default,
 * which is about one slice. The coarse unit hides random differences (thesis 4.5.3).
 */
#define DRFQ_REGISTER_SHIFT 22

/* Slack that bus_vt has beyond a / w behind B (ns): two units of the registers. */
#define DRFQ_BUS_SLACK_NS (2ULL << DRFQ_REGISTER_SHIFT)

/*
 * How much farther behind bus_vt B follows device traffic than CPU traffic, at weight 1 (ns
 * of virtual time). It exceeds the memory time of what a device has in flight.
 */
#define DRFQ_BUS_LEAD_NS 100000000ULL

/* The machine and the algorithm's constants. They do not change after load. */
struct drfq_conf {
	/* c: number of CPUs that the scheduler manages, at least 1. */
	u32 nr_cpus;
	/* When S is charged: enum drfq_charging. */
	u32 charging;
	/* 1/m: time that one byte takes at full memory bandwidth (ns per byte,
	 * 32.32 fixed point). 0: memory traffic is not charged. */
	u64 mem_ns_per_byte_q32;
	/* delta: most that a flow's virtual times may differ (ns); 0 is memoryless. */
	u64 delta_ns;
	/* C of 4.7: how far behind V a woken flow may start (ns of virtual time). */
	u64 wake_credit_ns;
	/* K of 4.10: how far after V a woken flow may still be dispatched (ns of
	 * virtual time). */
	u64 hold_ns;
	/* Algorithm 2: how far after V a running flow may start its next packet
	 * (ns of virtual time). */
	u64 cap_ns;
	/* a: how far bus_vt may lie behind B at weight 1 (ns of virtual time). */
	u64 bus_credit_ns;
};

/* How contended the CPUs are when a flow is charged. */
struct drfq_load {
	/* CPUs that run a packet now, with the flow's own; 0 if unknown. */
	u32 busy_cpus;
	/* Not 0: another task waits for the flow's CPU. */
	u32 waiting;
};

/* A flow: one task's account. All zeros is invalid; use drfq_flow_new(). */
struct drfq_flow {
	/* Virtual time of the CPUs and of memory (ns). */
	u64 cpu_vt;
	u64 mem_vt;
	/* The virtual time that 4.10 compares with V + K (ns). It is S after the
	 * last wake-up with DMA traffic, less the CPU time that put S after V. */
	u64 debt_vt;
	/* Virtual time of all memory traffic (ns). Its system time is B, not V. */
	u64 bus_vt;
	/* Fractions not yet charged to cpu_vt and mem_vt (2^-32 ns). */
	u32 cpu_frac;
	u32 mem_frac;
	/* Fraction of memory time not yet charged, before the weight (2^-32 ns). */
	u32 bus_frac;
	/* w (DRFQ_WEIGHT_ONE is 1); at least DRFQ_WEIGHT_MIN. */
	u32 weight;
};

#define DRFQ_FN static inline __attribute__((always_inline, unused))

/* Returns whether virtual time @a is before @b (ns), also across a wrap. They must
 * be less than 2^63 ns apart. */
DRFQ_FN bool drfq_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Returns the later of two virtual times (ns). */
DRFQ_FN u64 drfq_later(u64 a, u64 b)
{
	return drfq_before(a, b) ? b : a;
}

/* Returns the earlier of two virtual times (ns). */
DRFQ_FN u64 drfq_earlier(u64 a, u64 b)
{
	return drfq_before(a, b) ? a : b;
}

/*
 * Returns @amount x @rate_q32 / 2^32 + *@frac / 2^32, rounded down, and leaves
 * the remainder in *@frac (2^-32). @amount: ns or bytes. @rate_q32: ns per unit,
 * 32.32 fixed point. Saturates at DRFQ_CHARGE_MAX_NS and then leaves *@frac alone.
 * BPF has no 128-bit multiplication, so this one multiplies in 32-bit halves.
 */
DRFQ_FN u64 drfq_scale(u64 amount, u64 rate_q32, u32 *frac)
{
	u64 ah = amount >> 32, al = amount & 0xffffffffULL;
	u64 rh = rate_q32 >> 32, rl = rate_q32 & 0xffffffffULL;
	u64 low, mid, sum;

	/* No partial product overflows. The checks before the sums catch the
	 * parts that would overflow a sum. */
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

/* Returns S, the virtual start time of the flow's next packet (ns). */
DRFQ_FN u64 drfq_start(const struct drfq_flow *f)
{
	return drfq_later(f->cpu_vt, f->mem_vt);
}

/*
 * Initializes a new flow, which starts at V (4.8). @v: V (ns). @bus: its bus_vt (ns).
 * @weight: w in units of 1/DRFQ_WEIGHT_ONE; less than DRFQ_WEIGHT_MIN is raised to
 * it.
 */
DRFQ_FN void drfq_flow_new(struct drfq_flow *f, u64 v, u64 bus, u32 weight)
{
	f->cpu_vt = v;
	f->mem_vt = v;
	f->debt_vt = v;
	f->bus_vt = bus;
	f->cpu_frac = 0;
	f->mem_frac = 0;
	f->bus_frac = 0;
	f->weight = weight < DRFQ_WEIGHT_MIN ? DRFQ_WEIGHT_MIN : weight;
}

/*
 * Initializes the flow @child of a task that one with flow @parent forks. It starts at
 * the parent's S and bus_vt, or at @v and @bus if those are later (ns). What devices
 * moved for the parent counts up to cap beyond @v, as for an heir: the child has not
 * asked for it. The parent's CPU time is no debt of the child (4.10). @weight: as above.
 */
DRFQ_FN void drfq_flow_fork(struct drfq_flow *child, const struct drfq_flow *parent,
			    const struct drfq_conf *c, u64 v, u64 bus, u32 weight)
{
	u64 start = drfq_start(parent), most = v + c->cap_ns, beyond = 0;
	u64 debt_vt = drfq_earlier(start, drfq_later(v, parent->debt_vt));

	if (drfq_before(most, debt_vt))
		beyond = debt_vt - most;
	drfq_flow_new(child, drfq_later(v, start - beyond), drfq_later(bus, parent->bus_vt),
		      weight);
	child->debt_vt = debt_vt - beyond;
}

/*
 * Returns the virtual time of 1 ns of resource time (ns per ns, 32.32 fixed
 * point): 1 / (w x divisor). @weight: w, not 0. @divisor: CPUs that share the time
 * (4.1), not 0; 1 for memory.
 */
DRFQ_FN u64 drfq_rate_q32(u32 weight, u32 divisor)
{
	return ((u64)DRFQ_WEIGHT_ONE << 32) / ((u64)weight * divisor);
}

/* Raises the earlier virtual time to at most @delta_ns behind the later one. */
DRFQ_FN void drfq_bound(struct drfq_flow *f, u64 delta_ns)
{
	u64 floor = drfq_start(f) - delta_ns;

	f->cpu_vt = drfq_later(f->cpu_vt, floor);
	f->mem_vt = drfq_later(f->mem_vt, floor);
}

/* Returns whether the CPUs are contended: none is idle, or a task waits for one. */
DRFQ_FN bool drfq_contended(const struct drfq_conf *c, struct drfq_load load)
{
	return load.waiting || load.busy_cpus >= c->nr_cpus;
}

/* Returns whether time on a CPU costs anything. */
DRFQ_FN bool drfq_charges_time(const struct drfq_conf *c, struct drfq_load load)
{
	return c->charging != DRFQ_CHARGE_CONTENDED || drfq_contended(c, load);
}

/*
 * Returns the number of CPUs that running time is divided by, at least 1: c (4.1),
 * or the busy CPUs (4.5.2). @busy_cpus: see struct drfq_load.
 */
DRFQ_FN u32 drfq_cpu_divisor(const struct drfq_conf *c, u32 busy_cpus)
{
	if (c->charging == DRFQ_CHARGE_BUSY && busy_cpus && busy_cpus < c->nr_cpus)
		return busy_cpus;
	return c->nr_cpus ? c->nr_cpus : 1;
}

/*
 * Charges memory traffic to bus_vt, and to mem_vt if @in_start (4.2-4.4). @bytes: b.
 * Returns what bus_vt grew by (ns of virtual time).
 */
DRFQ_FN u64 drfq_charge_traffic(struct drfq_flow *f, const struct drfq_conf *c, u64 bytes,
				bool in_start)
{
	u64 ns;

	if (!bytes || !c->mem_ns_per_byte_q32)
		return 0;
	/* Two steps, because the product of both rates would overflow at a low
	 * weight on slow memory. */
	ns = drfq_scale(bytes, c->mem_ns_per_byte_q32, &f->bus_frac);
	ns = drfq_scale(ns, drfq_rate_q32(f->weight, 1), &f->mem_frac);
	f->bus_vt += ns;
	if (in_start)
		f->mem_vt += ns;
	return ns;
}

/*
 * Charges a packet, or a part of one, to its flow (4.1-4.4). @run_ns: R, time on a
 * CPU (ns). @bytes: b, the packet's memory traffic. Returns what bus_vt grew by (ns
 * of virtual time).
 *
 * With DRFQ_CHARGE_CONTENDED, time on a CPU that no other task wants costs nothing,
 * so it is not paid for later. Traffic costs CPU only while a task waits: the
 * traffic that a packet moves beside idle CPUs keeps no task from a CPU.
 */
DRFQ_FN u64 drfq_charge(struct drfq_flow *f, const struct drfq_conf *c, u64 run_ns, u64 bytes,
			struct drfq_load load)
{
	bool always = c->charging != DRFQ_CHARGE_CONTENDED;
	u64 bus_ns;

	if (run_ns && drfq_charges_time(c, load))
		f->cpu_vt += drfq_scale(
			run_ns, drfq_rate_q32(f->weight, drfq_cpu_divisor(c, load.busy_cpus)),
			&f->cpu_frac);
	bus_ns = drfq_charge_traffic(f, c, bytes, always || load.waiting);
	drfq_bound(f, c->delta_ns);
	return bus_ns;
}

/*
 * Charges the traffic of devices to its flow: a blocked packet (4.5), or a part of a
 * running one. @bytes: b. With DRFQ_CHARGE_CONTENDED, S grows only while CPUs are
 * contended.
 */
DRFQ_FN void drfq_charge_dma(struct drfq_flow *f, const struct drfq_conf *c, u64 bytes,
			     struct drfq_load load)
{
	drfq_charge_traffic(f, c, bytes, drfq_charges_time(c, load));
	drfq_bound(f, c->delta_ns);
}

/* Returns a / w: how far bus_vt of this flow may lie behind B (ns of virtual time). */
DRFQ_FN u64 drfq_bus_credit(const struct drfq_flow *f, const struct drfq_conf *c)
{
	return c->bus_credit_ns * DRFQ_WEIGHT_ONE / f->weight;
}

/*
 * Returns the next B (ns), which is never before @bus_v, after a running packet was
 * charged. @bus_v: B. @bus_ns: what drfq_charge() returned. B follows the flow with
 * the latest bus_vt at a distance of a / w and the slack. It advances by at most
 * @bus_ns, so a flow that owes for DMA traffic does not take B along.
 */
DRFQ_FN u64 drfq_bus_advance(const struct drfq_flow *f, const struct drfq_conf *c, u64 bus_v,
			     u64 bus_ns)
{
	u64 behind = f->bus_vt - drfq_bus_credit(f, c) - DRFQ_BUS_SLACK_NS;

	return drfq_later(bus_v, drfq_earlier(behind, bus_v + bus_ns));
}

/*
 * Raises bus_vt to at least B - a / w, so that a flow saves up no more bandwidth than
 * that while it moves little. @bus_v: B (ns).
 */
DRFQ_FN void drfq_bus_lift(struct drfq_flow *f, const struct drfq_conf *c, u64 bus_v)
{
	/* Few flows are behind B. Only they need the division. */
	if (drfq_before(f->bus_vt, bus_v))
		f->bus_vt = drfq_later(f->bus_vt, bus_v - drfq_bus_credit(f, c));
}

/* Returns how far bus_vt of a flow lies after B at most (ns of virtual time), after a device moved
 * bytes for it: at the distance that CPU traffic has, and the lead at w. */
DRFQ_FN u64 drfq_bus_ahead(const struct drfq_flow *f, const struct drfq_conf *c)
{
	u64 lead = DRFQ_BUS_LEAD_NS * DRFQ_WEIGHT_ONE / f->weight;

	return drfq_bus_credit(f, c) + DRFQ_BUS_SLACK_NS + lead;
}

/*
 * Returns the next B (ns), which is never before @bus_v, after a device moved bytes for the
 * flow. @bus_v: B. If B did not follow, a flow whose devices used memory that nobody else
 * wanted would pay for all of it later.
 */
DRFQ_FN u64 drfq_bus_follow(const struct drfq_flow *f, const struct drfq_conf *c, u64 bus_v)
{
	return drfq_later(bus_v, f->bus_vt - drfq_bus_ahead(f, c));
}

/*
 * Returns the virtual time by which a memory controller serves the flow (ns): bus_vt,
 * or S with the charging rules of the thesis (4.5.3).
 */
DRFQ_FN u64 drfq_register_vtime(const struct drfq_flow *f, const struct drfq_conf *c)
{
	return c->charging == DRFQ_CHARGE_CONTENDED ? f->bus_vt : drfq_start(f);
}

/*
 * Returns the next V (4.6, ns), which is never before @v. @min_start: the smallest S
 * of all running packets (ns).
 */
DRFQ_FN u64 drfq_advance(u64 v, u64 min_start)
{
	return drfq_later(v, min_start);
}

/*
 * Raises a flow's virtual times to at least V - C. @v: V (ns). A sleeping flow is
 * lifted by 4.7; this rule also lifts a flow that runs without a pause. One task
 * cannot use more than one CPU, so a weight worth more must not save up credit.
 */
DRFQ_FN void drfq_lift(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	u64 floor = v - c->wake_credit_ns;

	f->cpu_vt = drfq_later(f->cpu_vt, floor);
	f->mem_vt = drfq_later(f->mem_vt, floor);
}

/*
 * A flow moves from a CPU whose packet has S = @from to one with S = @to (ns): moves the
 * virtual times of S by the difference, so that the flow keeps its distance from the
 * packet. A move forward ends at most cap after V, where @v is V (ns), and a move back
 * ends at @to at the earliest. Without these limits, flows that move among each other
 * would push each other away from V for ever. B is the same for all CPUs, so bus_vt stays.
 */
DRFQ_FN void drfq_move(struct drfq_flow *f, const struct drfq_conf *c, u64 v, u64 from, u64 to)
{
	u64 start = drfq_start(f), end = start + (to - from), by_ns;

	if (drfq_before(from, to))
		end = drfq_earlier(end, drfq_later(start, v + c->cap_ns));
	else
		end = drfq_later(end, drfq_earlier(start, to));
	by_ns = end - start;
	f->cpu_vt += by_ns;
	f->mem_vt += by_ns;
	f->debt_vt += by_ns;
}

/* Returns @vt (ns) after the weight changed from @old to @weight: what lies after @v is worth the
 * same resource time. */
DRFQ_FN u64 drfq_reweighed(u64 vt, u64 v, u32 old, u32 weight)
{
	u32 frac = 0;

	if (!drfq_before(v, vt))
		return vt;
	return v + drfq_scale(vt - v, ((u64)old << 32) / weight, &frac);
}

/* The flow's weight changes from @old to @weight, which is not 0. @v: V, @bus_v: B (ns). */
DRFQ_FN void drfq_reweigh(struct drfq_flow *f, u64 v, u64 bus_v, u32 old, u32 weight)
{
	f->cpu_vt = drfq_reweighed(f->cpu_vt, v, old, weight);
	f->mem_vt = drfq_reweighed(f->mem_vt, v, old, weight);
	f->debt_vt = drfq_reweighed(f->debt_vt, v, old, weight);
	f->bus_vt = drfq_reweighed(f->bus_vt, bus_v, old, weight);
}

/*
 * Makes a blocked flow runnable (4.5, 4.7). @v: V (ns). @dma_bytes: traffic that
 * devices moved for the flow while it was blocked. Each virtual time of S is raised to
 * V - C, so a sleeper saves up at most C. What lies after V stays, without a cap.
 */
DRFQ_FN void drfq_wake(struct drfq_flow *f, const struct drfq_conf *c, u64 v, u64 dma_bytes,
		       struct drfq_load load)
{
	u64 start = drfq_start(f), mem_vt = f->mem_vt;

	if (dma_bytes) {
		drfq_charge_dma(f, c, dma_bytes, load);
		f->debt_vt = drfq_later(f->debt_vt, drfq_earlier(start, v)) + f->mem_vt - mem_vt;
		f->debt_vt = drfq_earlier(f->debt_vt, drfq_start(f));
	}
	drfq_lift(f, c, v);
}

/*
 * Lowers a running flow's virtual times to at most V + cap (Algorithm 2). @v: V
 * (ns). Otherwise a flow that used an idle machine would wait for long once other
 * tasks arrive.
 *
 * The rule departs from the printed algorithm in two ways. Both keep the weights
 * exact.
 * - It applies when a packet starts, not when it ends. A packet longer than the
 *   cap is thus paid in full; at a low weight every slice is that long.
 * - It applies only if no other task waits. If one waits, the packet that starts
 *   has the smallest S. V then lags, because a flow whose weight is worth more
 *   than one CPU holds it back. V moves to drfq_contended_v() and the flow stays.
 */
DRFQ_FN void drfq_cap(struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	u64 limit = v + c->cap_ns;

	if (drfq_before(limit, f->cpu_vt))
		f->cpu_vt = limit;
	if (drfq_before(limit, f->mem_vt))
		f->mem_vt = limit;
}

/*
 * Returns S (ns) that the heir of an ended flow has at least. It lies beyond @v by
 * the resource time that @ended used beyond @v, at the heir's weight, but by at most
 * cap. The same resource time is 68 times as much virtual time at nice 19 as at
 * nice 0.
 */
DRFQ_FN u64 drfq_inherited(const struct drfq_flow *ended, const struct drfq_flow *heir,
			   const struct drfq_conf *c, u64 v)
{
	u64 start = drfq_start(ended), beyond;
	u32 frac = 0;

	if (drfq_before(start, v))
		return start;
	beyond = drfq_scale(start - v, ((u64)ended->weight << 32) / heir->weight, &frac);
	return v + (beyond < c->cap_ns ? beyond : c->cap_ns);
}

/*
 * Returns bus_vt (ns) that the heir of an ended flow has at least. Like
 * drfq_inherited(), at most a / w beyond B. @bus_v: B (ns).
 */
DRFQ_FN u64 drfq_bus_inherited(const struct drfq_flow *ended, const struct drfq_flow *heir,
			       const struct drfq_conf *c, u64 bus_v)
{
	u64 most = drfq_bus_credit(heir, c) + DRFQ_BUS_SLACK_NS, beyond;
	u32 frac = 0;

	if (drfq_before(ended->bus_vt, bus_v))
		return ended->bus_vt;
	beyond =
		drfq_scale(ended->bus_vt - bus_v, ((u64)ended->weight << 32) / heir->weight, &frac);
	return bus_v + (beyond < most ? beyond : most);
}

/*
 * Returns the least V (ns) when a packet starts at @start (ns) while other tasks
 * wait for its CPU. The packet then starts at most cap after V.
 */
DRFQ_FN u64 drfq_contended_v(const struct drfq_conf *c, u64 start)
{
	return start - c->cap_ns;
}

/*
 * Returns whether a woken flow must wait (4.10). @v: V (ns). The thesis compares S
 * with V + K. This rule compares debt_vt, which leaves CPU time out: section 4.5.1
 * argues with DMA alone. At a low weight, one slice puts S after V + K. By S, a
 * little DMA would keep such a task from an idle CPU most of the time.
 */
DRFQ_FN bool drfq_held(const struct drfq_flow *f, const struct drfq_conf *c, u64 v)
{
	return drfq_before(v + c->hold_ns, f->debt_vt);
}

/*
 * Returns the weight of a nice value, -20 to 19, in the thesis (4.9), in units of
 * 1/DRFQ_WEIGHT_ONE. It is 1 + nice for nice >= 0, and 1 / (1 - nice) below. A higher
 * nice value is a larger weight here, unlike in the kernel.
 */
DRFQ_FN u32 drfq_weight_thesis(s32 nice)
{
	if (nice >= 0)
		return (u32)(1 + nice) * DRFQ_WEIGHT_ONE;
	return DRFQ_WEIGHT_ONE / (u32)(1 - nice);
}

#endif /* DRFQ_H */
