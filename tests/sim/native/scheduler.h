/* SPDX-License-Identifier: GPL-2.0-only */
/* What the model of the kernel and the tests see of the scheduler beyond its callbacks. */
#ifndef DRFQ_NATIVE_SCHEDULER_H
#define DRFQ_NATIVE_SCHEDULER_H

#include <scx/common.bpf.h>

#include "intf.h"

/* The options that the loader would write; bpf/options.bpf.h has their units. */
struct scheduler_options {
	struct drfq_conf conf;
	u64 slice_ns;
	u64 preempt_margin_ns;
	u64 hold_max_ns;
	u64 rescue_ns;
	u64 v_origin_ns;
	u64 bus_v_origin_ns;
	const u32 *llc_of_cpu; /* what the kernel sees */
	const u32 *queue_of_cpu;
	const u8 *near_queues; /* near_llcs of DRFQ_MAX_LLCS squared */
	const u64 *steal_margins_ns; /* likewise */
	u32 nr_cpus;
	u32 nr_queues;
	u32 pmu_events; /* traffic counters of a CPU, up to DRFQ_PMU_EVENTS */
	bool drives_controller;
};

/* A task's account. */
struct scheduler_task {
	u64 start_ns; /* S, virtual ns */
	u64 bus_vt_ns; /* virtual ns of the memory account */
	u64 bytes; /* charged, of CPU and DMA */
	u64 dma_bytes; /* the part of it that DMA moved */
	u64 charged_ns; /* CPU time that was charged */
	u64 held_ns; /* total of all holds that ended */
	u32 weight; /* effective; DRFQ_WEIGHT_ONE is 1 */
	u32 held; /* DRFQ_TASK_HELD is set */
};

/* The number of the CPU's queue. */
u32 scheduler_queue_of_cpu(s32 cpu);
/* The DSQ that the CPU would take from; 0: none. */
u64 scheduler_queue_choice(s32 cpu);
/* Whether the scheduler's own code is at this address, for calls that come from it. */
bool scheduler_has_code_at(const void *address);
/* The CPU whose slot is at this address; -1: none. */
s32 scheduler_slot_owner(const void *address);
/* Calls @each with the sections of the scheduler's global variables. */
void scheduler_each_section(void *context,
			    void (*each)(void *context, const char *start, size_t bytes));

/* The scheduler's global variables, as one block of bytes. */
size_t scheduler_image_bytes(void);
void scheduler_image_save(char *image);
void scheduler_image_load(const char *image);

const struct sched_ext_ops *scheduler_ops(void);
void scheduler_configure(const struct scheduler_options *options);
/* The scheduler was loaded long ago, so V moves. */
void scheduler_settle(void);
/* sched_switch, from a task of a higher class to another one. */
void scheduler_switch_above(void);
/* Makes the thread group of @p the agent's. */
void scheduler_set_agent(const struct task_struct *p);
void scheduler_set_agent_stats(const struct task_struct *p);
void scheduler_task_set_weight(struct task_struct *p, u32 weight);
/* Sets S (ns of virtual time). */
void scheduler_task_set_start(struct task_struct *p, u64 start_ns);
/* What the agent's rules do; @weight in 1/DRFQ_WEIGHT_ONE. */
void scheduler_rule_task(struct task_struct *p, u32 weight);
void scheduler_rule_cgroup(struct cgroup *cgrp, u32 weight);
void scheduler_pace(u32 index, u64 ns_per_byte_q32);
void scheduler_pace_group(struct task_struct *p, u32 index);
u64 scheduler_pace_paid(u32 index);
void scheduler_task_add_traffic(struct task_struct *p, u64 bytes, bool by_cpu);
void scheduler_task_view(struct task_struct *p, struct scheduler_task *view);
void scheduler_task_stat(struct task_struct *p, struct drfq_task_stat *stat);
/* Whether a task is urgent; the CPU that counts it as one, -1: none; how many a CPU counts. */
bool scheduler_task_is_urgent(struct task_struct *p);
s32 scheduler_task_urgent_cpu(struct task_struct *p);
u32 scheduler_urgent_waiting(s32 cpu);
/* The kernel skips the first or the second program of each pair from now on. */
void scheduler_skip(bool first, bool second);
/* The kernel traces that @bio is queued, or remapped from device @from. */
void scheduler_bio_queue(struct bio *bio);
/* A limit delays @bio before that. */
void scheduler_bio_limit(struct bio *bio);
void scheduler_bio_end(struct bio *bio);
void scheduler_bio_remap(struct bio *bio, u32 from);
/* The kernel traces that a request goes to the driver of its device. */
void scheduler_rq_issue(struct request *rq);
/* A driver begins a request that no bio asks for. */
void scheduler_rq_execute(struct request *rq, bool waits);
/* A folio becomes dirty. */
void scheduler_dirty_folio(struct folio *folio, struct address_space *mapping);
/* What a task calls to use a socket. */
enum socket_kind {
	SOCKET_INET,
	SOCKET_INET6,
	SOCKET_PACKET, /* It receives as SOCKET_INET does: packet_recvmsg() is not followed. */
	SOCKET_TRACED, /* BPF follows no functions. */
};
/* Packets, and tasks that use sockets. */
void scheduler_net_send(struct sk_buff *skb, struct net_device *dev);
void scheduler_net_arrive(struct sk_buff *skb);
void scheduler_net_receive(struct sock *sk, struct sk_buff *skb);
void scheduler_net_use(struct sock *sk, enum socket_kind kind, bool sends);
u64 scheduler_slice_ns(void);
/* Nothing of the budgets has been used for long. */
void scheduler_fill_budgets(void);
u64 scheduler_v_ns(void);
/* How many CPUs count as busy. */
u32 *scheduler_busy_cpus(void);
u64 scheduler_register_vtime(s32 cpu);
u64 scheduler_slot_vtime_ns(s32 cpu);
u64 scheduler_bus_v_ns(void);
/* Adds to @past how often each event of DRFQ_EVENTS was counted. */
void scheduler_add_events(u64 *past);
/* How often the event named @name was counted, with @past; all ones: there is none. */
u64 scheduler_event_count_by_name(const char *name, const u64 *past);

#endif /* DRFQ_NATIVE_SCHEDULER_H */
