/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of drfq.h as global BPF functions, with this scheduler's
 * configuration and V. Their branches multiply the paths through a program, so
 * the verifier checks each once by itself (357,000 instructions for select_cpu
 * alone otherwise). They return a value because global functions must.
 */
#ifndef DRFQ_FLOW_BPF_H
#define DRFQ_FLOW_BPF_H

__noinline int flow_charge(struct drfq_flow *f __arg_nonnull, u64 run_ns, u64 bytes)
{
	drfq_charge(f, drfq_conf(), run_ns, bytes, READ_ONCE(busy_cpus));
	return 0;
}

__noinline int flow_wake(struct drfq_flow *f __arg_nonnull, u64 v, u64 dma_bytes)
{
	drfq_wake(f, drfq_conf(), v, dma_bytes);
	return 0;
}

__noinline int flow_cap(struct drfq_flow *f __arg_nonnull)
{
	drfq_cap(f, drfq_conf(), vtime_now());
	return 0;
}

__noinline int flow_lift(struct drfq_flow *f __arg_nonnull, u64 v)
{
	drfq_lift(f, drfq_conf(), v);
	return 0;
}

#endif /* DRFQ_FLOW_BPF_H */
