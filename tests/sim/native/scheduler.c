/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shipped scheduler, bpf/main.bpf.c, compiled for the host. Its global
 * variables lie in separate sections, so that each simulation has a copy.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>

#include "count.h"
#include "scheduler.h"

#pragma clang section bss = "drfq_bss" data = "drfq_data" rodata = "drfq_rodata" text = "drfq_text"

/* The loader writes the read-only options before it loads the program. Here
 * they are written before a simulation starts, so they are plain variables. */
#define const
/* The compiler's hooks see loads and stores, but no atomic operations. */
#define __sync_fetch_and_add(at, value) (count_atomic(at), __sync_fetch_and_add(at, value))
#define __sync_fetch_and_sub(at, value) (count_atomic(at), __sync_fetch_and_sub(at, value))
#define __sync_fetch_and_or(at, value) (count_atomic(at), __sync_fetch_and_or(at, value))
#define __sync_fetch_and_and(at, value) (count_atomic(at), __sync_fetch_and_and(at, value))
#define __sync_lock_test_and_set(at, value) (count_atomic(at), __sync_lock_test_and_set(at, value))
#define __sync_val_compare_and_swap(at, old, value)                                                \
	(count_atomic(at), __sync_val_compare_and_swap(at, old, value))
#define __sync_bool_compare_and_swap(at, old, value)                                               \
	(count_atomic(at), __sync_bool_compare_and_swap(at, old, value))
#include "main.bpf.c"
#undef const

#pragma clang section bss = "" data = "" rodata = "" text = ""

extern char __start_drfq_bss[], __stop_drfq_bss[];
extern char __start_drfq_data[], __stop_drfq_data[];
/* Weak, because the linker drops the code from programs that have no machine. */
extern char __start_drfq_text[] __attribute__((weak)), __stop_drfq_text[] __attribute__((weak));

bool scheduler_has_code_at(const void *address)
{
	return (const char *)address >= __start_drfq_text &&
	       (const char *)address < __stop_drfq_text;
}

s32 scheduler_slot_owner(const void *address)
{
	size_t at = (uintptr_t)address - (uintptr_t)cpus;

	return at < sizeof(cpus) ? (s32)(at / sizeof(cpus[0])) : -1;
}

void scheduler_each_section(void *context,
			    void (*each)(void *context, const char *start, size_t bytes))
{
	each(context, __start_drfq_bss, (size_t)(__stop_drfq_bss - __start_drfq_bss));
	each(context, __start_drfq_data, (size_t)(__stop_drfq_data - __start_drfq_data));
}

size_t scheduler_image_bytes(void)
{
	return (size_t)(__stop_drfq_bss - __start_drfq_bss) +
	       (size_t)(__stop_drfq_data - __start_drfq_data);
}

void scheduler_image_save(char *image)
{
	size_t bss = (size_t)(__stop_drfq_bss - __start_drfq_bss);

	memcpy(image, __start_drfq_bss, bss);
	memcpy(image + bss, __start_drfq_data, (size_t)(__stop_drfq_data - __start_drfq_data));
}

void scheduler_image_load(const char *image)
{
	size_t bss = (size_t)(__stop_drfq_bss - __start_drfq_bss);

	memcpy(__start_drfq_bss, image, bss);
	memcpy(__start_drfq_data, image + bss, (size_t)(__stop_drfq_data - __start_drfq_data));
}

const struct sched_ext_ops *scheduler_ops(void)
{
	return &drfq_ops;
}

/* Sets a variable that the loader makes read-only. */
#define SET_OPTION(option, value)                                                                  \
	do {                                                                                       \
		(option) = (value);                                                                \
		count_option(&(option), sizeof(option));                                           \
	} while (0)

void scheduler_configure(const struct scheduler_options *options)
{
	SET_OPTION(conf, options->conf);
	SET_OPTION(slice_ns, options->slice_ns);
	SET_OPTION(preempt_margin_ns, options->preempt_margin_ns);
	SET_OPTION(hold_max_ns, options->hold_max_ns);
	SET_OPTION(rescue_ns, options->rescue_ns);
	SET_OPTION(nr_llcs, options->nr_queues);
	SET_OPTION(nr_cpu_ids, options->nr_cpus);
	for (u32 cpu = 0; cpu < options->nr_cpus; cpu++)
		cpu_llc[cpu] = options->queue_of_cpu[cpu];
	count_option(cpu_llc, sizeof(cpu_llc));
	memcpy((void *)near_llcs, options->near_queues, sizeof(near_llcs));
	count_option(near_llcs, sizeof(near_llcs));
	memcpy((void *)steal_margins_ns, options->steal_margins_ns, sizeof(steal_margins_ns));
	count_option(steal_margins_ns, sizeof(steal_margins_ns));
	count_option(cpu_offline, sizeof(cpu_offline));
	SET_OPTION(pmu_nr_events, options->pmu_events);
	SET_OPTION(bio_traced_flag, NATIVE_BIO_TRACED);
	SET_OPTION(tracks_dirtiers, 1);
	SET_OPTION(drives_controller, options->drives_controller);
	count_option(&verifier_zero, sizeof(verifier_zero));
	system_vtime_ns.value = options->v_origin_ns;
	system_bus_vtime_ns.value = options->bus_v_origin_ns;
	for (u32 cpu = 0; cpu < DRFQ_MAX_CPUS; cpu++) {
		cpus[cpu].vtime_ns = options->v_origin_ns;
		/* The native counters count bytes. */
		for (u32 event = 0; event < options->pmu_events; event++)
			cpus[cpu].counters[event].bytes_q8 = 1 << 8;
	}
}

u32 scheduler_queue_of_cpu(s32 cpu)
{
	return cpu_llc[cpu];
}

u64 scheduler_queue_choice(s32 cpu)
{
	struct queue_pick pick = {};

	queue_choose(cpu, &pick);
	return pick.dsq;
}

void scheduler_switch_above(void)
{
	struct task_struct above = {};

	drfq_sched_switch(false, &above, &above);
}

void scheduler_settle(void)
{
	v_scan.taken = DRFQ_V_SCAN_FREE;
}

void scheduler_set_agent(const struct task_struct *p)
{
	agent_tgids.main = (u32)p->tgid;
}

void scheduler_set_agent_stats(const struct task_struct *p)
{
	agent_tgids.stats = (u32)p->tgid;
}

void scheduler_task_set_weight(struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);

	task_set_weight(t, t->cgroup, weight);
}

void scheduler_task_set_start(struct task_struct *p, u64 start_ns)
{
	struct task_ctx *t = task_ctx_of(p);

	t->flow.cpu_vt = t->flow.mem_vt = start_ns;
	scx_bpf_task_set_dsq_vtime(p, start_ns);
}

/* Which programs of each pair the kernel skips: the first, the second. */
static bool skipped[2];

void scheduler_skip(bool first, bool second)
{
	skipped[0] = first;
	skipped[1] = second;
}

#define PAIR(first, second)                                                                        \
	do {                                                                                       \
		if (!skipped[0])                                                                   \
			first;                                                                     \
		if (!skipped[1])                                                                   \
			second;                                                                    \
	} while (false)

void scheduler_bio_queue(struct bio *bio)
{
	PAIR(drfq_bio_queue(bio), drfq_bio_queue2(bio));
}

void scheduler_bio_limit(struct bio *bio)
{
	drfq_bio_limit(bio);
}

void scheduler_bio_end(struct bio *bio)
{
	drfq_bio_end(NULL, bio);
}

void scheduler_bio_remap(struct bio *bio, u32 from)
{
	PAIR(drfq_bio_remap(bio, from), drfq_bio_remap2(bio, from));
}

void scheduler_rq_issue(struct request *rq)
{
	PAIR(drfq_rq_issue(rq), drfq_rq_issue2(rq));
}

void scheduler_rq_execute(struct request *rq, bool waits)
{
	if (waits)
		PAIR(drfq_rq_execute(rq), drfq_rq_execute2(rq));
	else
		PAIR(drfq_rq_nowait(rq), drfq_rq_nowait2(rq));
}

void scheduler_dirty_folio(struct folio *folio, struct address_space *mapping)
{
	PAIR(drfq_dirty(folio, mapping), drfq_dirty2(folio, mapping));
}

void scheduler_net_send(struct sk_buff *skb, struct net_device *dev)
{
	drfq_skb_send(skb, dev);
}

void scheduler_net_arrive(struct sk_buff *skb)
{
	drfq_skb_arrive(skb);
}

void scheduler_net_receive(struct sock *sk, struct sk_buff *skb)
{
	drfq_skb_socket(sk, skb);
}

void scheduler_net_use(struct sock *sk, enum socket_kind kind, bool sends)
{
	struct socket sock = {.sk = sk};

	switch (kind) {
	case SOCKET_INET:
		sends ? drfq_inet_send(&sock) : drfq_inet_recv(&sock);
		break;
	case SOCKET_INET6:
		sends ? drfq_inet6_send(&sock) : drfq_inet6_recv(&sock);
		break;
	case SOCKET_PACKET:
		sends ? drfq_packet_send(&sock) : drfq_inet_recv(&sock);
		break;
	case SOCKET_TRACED:
		sends ? drfq_sock_send(sk, 0, 0) : drfq_sock_recv(sk, 0, 0);
		break;
	}
}

u64 scheduler_slice_ns(void)
{
	return slice_ns;
}

void scheduler_fill_budgets(void)
{
	u64 until_ns = 0 - DRFQ_BUDGET_WINDOW_NS;

	agent_until_ns = until_ns;
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		cpu_slot((s32)cpu)->rescue_until_ns = until_ns;
}

void scheduler_rule_task(struct task_struct *p, u32 weight)
{
	struct drfq_task_weight_arg arg = {.pid = (u32)p->pid, .weight = weight};

	drfq_set_task_weight(&arg);
}

void scheduler_rule_cgroup(struct cgroup *cgrp, u32 weight)
{
	struct drfq_cgroup_weight_arg arg = {.id = (u64)cgrp, .weight = weight};

	drfq_set_cgroup_weight(&arg);
}

void scheduler_pace(u32 index, u64 ns_per_byte_q32)
{
	struct drfq_pace_arg arg = {.ns_per_byte_q32 = ns_per_byte_q32, .index = index};

	drfq_set_pace(&arg);
}

void scheduler_pace_group(struct task_struct *p, u32 index)
{
	struct drfq_pace_group_arg arg = {.pid = (u32)p->pid, .index = index};

	drfq_set_pace_group(&arg);
}

u64 scheduler_pace_paid(u32 index)
{
	drfq_read_paces(NULL);
	return paces[index].paid_bytes;
}

void scheduler_task_add_traffic(struct task_struct *p, u64 bytes, bool by_cpu)
{
	struct drfq_traffic_arg arg = {.pid = (u32)p->pid, .bytes = bytes};

	arg.moved_by_cpu = by_cpu;
	drfq_charge_mem(&arg);
}

void scheduler_task_view(struct task_struct *p, struct scheduler_task *view)
{
	struct task_ctx *t = p->storage;

	view->start_ns = drfq_start(&t->flow);
	view->bus_vt_ns = t->flow.bus_vt;
	view->bytes = t->bytes;
	view->dma_bytes = t->dma_bytes;
	view->charged_ns = t->charged_ns;
	view->held_ns = t->held_ns;
	view->weight = t->flow.weight;
	view->held = t->flags & DRFQ_TASK_HELD;
}

bool scheduler_task_is_urgent(struct task_struct *p)
{
	return task_is_urgent(p);
}

s32 scheduler_task_urgent_cpu(struct task_struct *p)
{
	const struct task_ctx *t = p->storage;

	return (s32)t->urgent_cpu - 1;
}

u32 scheduler_urgent_waiting(s32 cpu)
{
	return cpus[cpu].urgent_waiting;
}

void scheduler_task_stat(struct task_struct *p, struct drfq_task_stat *stat)
{
	struct bpf_iter_meta meta = {.seq = (struct seq_file *)stat};
	struct bpf_iter__task ctx = {.meta = &meta, .task = p};

	drfq_tasks(&ctx);
}

u32 *scheduler_busy_cpus(void)
{
	return &busy_cpus.value;
}

u64 scheduler_v_ns(void)
{
	return system_vtime_ns.value;
}

u64 scheduler_bus_v_ns(void)
{
	return system_bus_vtime_ns.value;
}

u64 scheduler_register_vtime(s32 cpu)
{
	return labels[cpu].vtime;
}

u64 scheduler_slot_vtime_ns(s32 cpu)
{
	return cpus[cpu].vtime_ns;
}

static u64 scheduler_event_count(u32 event)
{
	u64 sum = 0;

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		sum += cpus[cpu].events[event];
		/* What running tasks asked for since their last charge is counted then. */
		if (event == DRFQ_EV_DMA_BYTES)
			sum += cpus[cpu].dma_pending_bytes;
		if (event == DRFQ_EV_DMA_CHARGED)
			sum += cpus[cpu].dma_pending_requests;
	}
	return sum;
}

void scheduler_add_events(u64 *past)
{
	for (u32 event = 0; event < DRFQ_NR_EVENTS; event++)
		past[event] += scheduler_event_count(event);
}

u64 scheduler_event_count_by_name(const char *name, const u64 *past)
{
#define EVENT_NAME(event, text) #event,
	static char *names[] = {DRFQ_EVENTS(EVENT_NAME)};

	for (u32 event = 0; event < DRFQ_NR_EVENTS; event++)
		if (!strcmp(names[event], name))
			return past[event] + scheduler_event_count(event);
	return ~0ULL;
}
