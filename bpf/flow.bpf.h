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

/* drfq_charge(): 4.1-4.4. @run_ns: R (ns). @bytes: b. */
__noinline int flow_charge(struct drfq_flow *f __arg_nonnull, u64 run_ns, u64 bytes)
{
	drfq_charge(f, drfq_conf(), run_ns, bytes, READ_ONCE(busy_cpus));
	return 0;
}

/* drfq_wake(): 4.5 and 4.7. @v: V (ns). @dma_bytes: traffic of devices. */
__noinline int flow_wake(struct drfq_flow *f __arg_nonnull, u64 v, u64 dma_bytes)
{
	drfq_wake(f, drfq_conf(), v, dma_bytes);
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

/* drfq_inherited(): S of the heir of a flow that ends (ns). */
__noinline u64 flow_inherited(struct drfq_flow *ended __arg_nonnull,
			      struct drfq_flow *heir __arg_nonnull)
{
	return drfq_inherited(ended, heir, drfq_conf(), vtime_now());
}

#endif /* DRFQ_FLOW_BPF_H */
