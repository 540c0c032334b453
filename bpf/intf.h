/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF scheduler and the agent share: sizes, the layout of the memory
 * that both map, and the names of the event counters. Rust sees it through
 * bindgen.
 */
#ifndef DRFQ_INTF_H
#define DRFQ_INTF_H

#include "drfq.h"

enum {
	/* Upper bounds of the tables below; both are powers of two. */
	DRFQ_MAX_CPUS = 1024,
	DRFQ_MAX_LLCS = 64,

	DRFQ_COMM_LEN = 16,

	/* DSQs: one per LLC, numbered from here; and one of the held tasks. */
	DRFQ_DSQ_LLC = 0x100,
	DRFQ_DSQ_HELD = 0x80,
};

/* How a nice value becomes a weight. */
enum drfq_weights {
	DRFQ_WEIGHTS_KERNEL,
	DRFQ_WEIGHTS_THESIS,
};

/*
 * Every event that the scheduler counts, with the text that --help-stats shows.
 * X(NAME, "description").
 */
#define DRFQ_EVENTS(X)                                                                             \
	X(SWITCHES, "packets started on a CPU")                                                    \
	X(CONTINUED, "packets that followed their predecessor on the CPU without a switch")        \
	X(WAKEUPS, "blocked packets ended by a wake-up")                                           \
	X(DIRECT, "wake-ups dispatched to an idle CPU at once")                                    \
	X(QUEUED, "tasks queued by virtual time")                                                  \
	X(LOCAL_KTHREADS, "per-CPU kernel threads dispatched past the queues")                     \
	X(PREEMPTS, "running packets preempted by a wake-up with an earlier virtual time")         \
	X(STEALS, "tasks taken from the queue of another LLC")                                     \
	X(HELD, "woken tasks held for their debt (delayed wake-up)")                               \
	X(RELEASED_VTIME, "held tasks released because V caught up")                               \
	X(RELEASED_IDLE, "held tasks released because nothing else ran")                           \
	X(RELEASED_BOUND, "held tasks released by the bound of a hold")                            \
	X(RESCUED, "starved tasks moved to the front of their queue")                              \
	X(CAPPED, "packets whose start was capped (Algorithm 2)")                                  \
	X(LIFTED, "packets whose start was raised to V, or to who waits, less the credit")         \
	X(V_PULLED, "packets that pulled V along because others queued behind them")               \
	X(YIELDS, "yields")                                                                        \
	X(REENQUEUED, "times a CPU was taken by a higher class and its tasks were queued again")   \
	X(REMOTE_UPDATES, "packets ended or started from another CPU")                             \
	X(PMU_MULTIPLEXED, "counter samples scaled because the event was multiplexed")             \
	X(PMU_READ_ERRORS, "counter reads that failed")                                            \
	X(DMA_CHARGED, "block I/O requests charged to their submitter")                            \
	X(DMA_UNATTRIBUTED, "block I/O requests whose submitter has no account")                   \
	X(CGROUPS_MERGED, "cgroups beyond the table's size, which share their parent's weight")    \
	X(NO_ACCOUNT, "look-ups of a task account that failed")

#define DRFQ_EVENT_ENUM(name, text) DRFQ_EV_##name,
enum drfq_event { DRFQ_EVENTS(DRFQ_EVENT_ENUM) DRFQ_NR_EVENTS };

/*
 * One CPU, one cache line of it for the packet that runs: what the agent
 * forwards to the registers of a memory controller (pid_coreId and
 * virtualTime_coreId of the thesis, table 3.1). Written by plain stores of the
 * owning CPU at a context switch and at each tick.
 */
struct drfq_cpu {
	/* S of the running packet (ns); meaningful while pid is not 0. It stays
	 * while the packet runs: V is the least of these, and must not pass the
	 * packets that are queued (all of which start later). */
	u64 vtime_ns;
	/* Thread id of the task whose packet runs; 0: none of ours. */
	u32 pid;
	/* Thread that yielded and was not queued since; 0: none. */
	u32 yielded_pid;
	/* Base of the memory-traffic counter: perf's value, enabled and running
	 * times when the present packet started or was last charged. */
	u64 base_counter;
	u64 base_enabled_ns;
	u64 base_running_ns;
	/* The base was taken when the last packet ended; nothing ran since. */
	u32 base_valid;
	/* A wake-up preempts the running packet; the next wake-up looks elsewhere. */
	u32 preempt_pending;
	/* Virtual time up to which the running packet is charged, and when that
	 * was (scx_bpf_now()). */
	u64 charged_vtime_ns;
	u64 charged_at_ns;
	u64 events[DRFQ_NR_EVENTS];
} __attribute__((aligned(64)));

/* One task as the task iterator reports it. Fixed layout, read as bytes. */
struct drfq_task_stat {
	u32 pid;
	u32 tgid;
	u32 weight; /* effective; DRFQ_WEIGHT_ONE is 1 */
	u32 flags; /* enum drfq_task_flags */
	s32 nice;
	u32 nr_cpus_allowed;
	u64 cpu_ns; /* time on a CPU since the task was born (kernel's figure) */
	u64 charged_ns; /* the part of it that this scheduler charged */
	u64 wait_ns; /* time runnable without a CPU since birth (kernel's figure, if it keeps one) */
	u64 bytes; /* memory traffic charged, CPU and DMA */
	u64 dma_bytes; /* the part of it that DMA moved */
	u64 cpu_vt_ns;
	u64 mem_vt_ns;
	u64 held_ns; /* total time held by delayed wake-up */
	u64 max_held_ns; /* longest hold */
	char comm[DRFQ_COMM_LEN];
};

enum drfq_task_flags {
	DRFQ_TASK_BLOCKED = 1 << 0, /* its packet in process is a blocked one */
	DRFQ_TASK_WOKEN = 1 << 1, /* woken and not run since (is_unblocked of the thesis) */
	DRFQ_TASK_HELD = 1 << 2, /* waits in DRFQ_DSQ_HELD, or was taken from it just now */
	DRFQ_TASK_KTHREAD = 1 << 3,
	DRFQ_TASK_INDEBTED = 1 << 4, /* devices moved memory while it was blocked */
	DRFQ_TASK_ACTIVE = 1 << 5, /* its weight is counted in its cgroup */
	DRFQ_TASK_SYNC = 1 << 6, /* whoever woke it is about to block */
};

/* Argument of the SYSCALL program drfq_charge_mem: charges traffic that the
 * kernel does not report (a user-space driver, a test) to a task. */
struct drfq_traffic_arg {
	u32 pid;
	u32 moved_by_cpu; /* a CPU moved them, and a memory controller counted it */
	u64 bytes;
};

#endif /* DRFQ_INTF_H */
