/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the BPF scheduler and user space: table sizes, the layout
 * of shared memory, and the event counters. Rust reads it through bindgen.
 */
#ifndef DRFQ_INTF_H
#define DRFQ_INTF_H

#include "drfq.h"
#include "limits.h"

enum {
	/* Sizes of the tables. Both are powers of two. */
	DRFQ_MAX_CPUS = 1024,
	DRFQ_MAX_LLCS = 64,

	DRFQ_COMM_LEN = 16,

	/* Events of a CPU that count memory traffic, at most. */
	DRFQ_PMU_EVENTS = 2,

	/* The hardware id of tasks that the agent has given none of their own. It is
	 * not 0: the memory controller serves traffic of id 0 before all other. */
	DRFQ_HW_ID_SHARED = 1,
	/* Hardware ids have 13 bits. */
	DRFQ_HW_IDS = 8192,

	/* Groups of tasks that may have a pace, and one more: 0 stands for no group. It is a
	 * power of two. */
	DRFQ_PACES = 32,

	/* DSQ ids: the queues of held and of throttled tasks, and the first queue of each kind of
	 * queue.bpf.h, which the others follow. The low bits number the LLC. */
	DRFQ_DSQ_HELD = 0x80,
	DRFQ_DSQ_THROTTLED = 0x81,
	DRFQ_DSQ_LLC = 0x100,
	DRFQ_DSQ_PARTIAL = 0x200,
	DRFQ_DSQ_CPU = 0x1000,
};

/* How a nice value becomes a weight: the kernel's table, or 4.9. */
enum drfq_weights {
	DRFQ_WEIGHTS_KERNEL,
	DRFQ_WEIGHTS_THESIS,
};

/*
 * The events that the scheduler counts: X(NAME, "text of --help-stats"). Each
 * becomes a statistic with the same name in lower case. Each is on one line, because
 * userspace/stats/build.rs reads them line by line.
 */
#define DRFQ_EVENTS(X)                                                                             \
	X(SWITCHES, "packets started on a CPU")                                                    \
	X(CONTINUED, "packets of a task that continued on its CPU without a switch")               \
	X(WAKEUPS, "blocked packets ended by a wake-up")                                           \
	X(DIRECT, "wake-ups dispatched directly to an idle CPU")                                   \
	X(QUEUED, "tasks queued by virtual time")                                                  \
	X(LOCAL_KTHREADS, "per-CPU kernel threads dispatched directly to their CPU")               \
	X(PREEMPTS, "running packets preempted by a wake-up with an earlier virtual time")         \
	X(STEALS, "tasks taken from the queue of another LLC")                                     \
	X(HELD, "woken tasks held because of their DMA traffic (delayed wake-up)")                 \
	X(RELEASED_VTIME, "held tasks released because V caught up")                               \
	X(RELEASED_IDLE, "held tasks released because a CPU was idle")                             \
	X(RELEASED_BOUND, "held tasks released after the longest allowed hold")                    \
	X(THROTTLED, "tasks that wait because their cgroup has used up its cpu.max")               \
	X(PACED, "tasks that wait because their group moves too much (--throttle, --mba)")         \
	X(RESCUED, "starved tasks that ran ahead of their turn")                                   \
	X(RESCUED_NS, "CPU time of these packets (ns)")                                            \
	X(LATE, "tasks that waited for a CPU for more than 10 s")                                  \
	X(AGENT_AHEAD, "packets of the agent that ran ahead of their turn")                        \
	X(AGENT_AHEAD_NS, "CPU time of these packets (ns)")                                        \
	X(CAPPED, "packets whose start was capped (Algorithm 2)")                                  \
	X(LIFTED, "packets raised to the wake credit behind V or the first waiting task")          \
	X(V_PULLED, "packets that advanced V because other tasks waited behind them")              \
	X(YIELDS, "calls of sched_yield()")                                                        \
	X(REENQUEUED, "times a higher class took a CPU and its tasks were queued again")           \
	X(REMOTE_UPDATES, "packets started, charged or ended by another CPU")                      \
	X(PMU_MULTIPLEXED, "PMU samples scaled because the kernel multiplexed the event")          \
	X(PMU_READ_ERRORS, "PMU reads that failed")                                                \
	X(DMA_BYTES, "bytes of block I/O requests, whoever pays")                                  \
	X(DMA_CHARGED, "block I/O requests charged to a task")                                     \
	X(DMA_UNATTRIBUTED, "block I/O requests without an account to charge")                     \
	X(DMA_UNATTRIBUTED_BYTES, "bytes of these requests")                                       \
	X(DMA_WRITTEN_BACK_BYTES, "bytes that kernel threads wrote for tasks, which were charged") \
	X(DMA_ENDED_BYTES, "bytes that kernel threads moved for tasks that have ended")            \
	X(NET_BYTES, "bytes that network cards sent and received")                                 \
	X(NET_CHARGED_BYTES, "bytes of these charged to a task")                                   \
	X(CGROUPS_MERGED, "cgroups that did not fit in the table and share their parent's weight") \
	X(NO_ACCOUNT, "failed look-ups of a task's account")

#define DRFQ_EVENT_ENUM(name, text) DRFQ_EV_##name,
enum drfq_event { DRFQ_EVENTS(DRFQ_EVENT_ENUM) DRFQ_NR_EVENTS };

/* What the scan for V does. */
enum drfq_v_scan {
	DRFQ_V_SCAN_FREE,
	DRFQ_V_SCAN_TAKEN, /* a CPU scans */
	DRFQ_V_SCAN_AWAITS, /* the scheduler is being loaded */
	DRFQ_V_SCAN_CLOSED, /* it will end; V is what it leaves */
};

/* Why a packet runs ahead of the order of S. Both of the first have a budget. */
enum drfq_ahead {
	DRFQ_AHEAD_RESCUED,
	DRFQ_AHEAD_AGENT,
	DRFQ_AHEAD_WITHOUT_BUDGET,
};

/* A valid label: the id of a memory controller's registers (registers.toml). */
#define DRFQ_LABEL_VALID 0x434d2d5146524400ULL

/*
 * What a CPU tells a memory controller about its running task (pid_coreId and
 * virtualTime_coreId; thesis, table 3.1). The layout is that of [mailbox] in
 * gem5-backend/interface/registers.toml. The owning CPU writes it with plain stores
 * at each switch and each tick.
 */
struct drfq_label {
	u64 valid; /* DRFQ_LABEL_VALID while the scheduler is loaded */
	u64 pid; /* hardware id; 0: no task of this scheduler runs */
	u64 vtime; /* virtual time of the task's traffic (2^register_shift ns) */
} __attribute__((aligned(64)));

/* What one traffic counter of a CPU has counted that is charged already. */
struct drfq_counter {
	/* Bytes that one event stands for (1/256 byte); 0: there is no counter. The
	 * loader sets it. */
	u64 bytes_q8;
	/* Base: the perf event's value, enabled time and running time when the
	 * packet started or was last charged. */
	u64 events;
	u64 enabled_ns;
	u64 running_ns;
};

/*
 * Where a search among waiting tasks goes on: after the task with thread id @pid (0: at the
 * start), if that one has waited since @since (jiffies).
 */
struct drfq_cursor {
	u64 since;
	u32 pid;
};

/*
 * The slot of one CPU. Its first cache line describes the running packet. The owning
 * CPU writes it with plain stores at each switch and each tick.
 */
struct drfq_cpu {
	/* S of the running packet (ns of virtual time), or of the last one; valid while
	 * pid or taken is not 0. It does not change while the packet runs. V is the
	 * smallest S of all slots with a pid, and must not pass the queued tasks, which
	 * start later. */
	u64 vtime_ns;
	/* Thread id of the running task; 0 if this scheduler runs none here. */
	u32 pid;
	/* Not 0: a wake-up already preempts the running packet. */
	u32 preempt_pending;
	/* Not 0: a higher class has taken the CPU. */
	u32 taken;
	/* What follows is for the CPU itself, on lines that others rarely read. */
	/* Thread id of a task that yielded and is not queued yet; 0: none. */
	u32 yielded_pid __attribute__((aligned(64)));
	/* Not 0: the base was taken when the last packet ended, and nothing has
	 * run on this CPU since. The next packet may use it. */
	u32 base_valid;
	/* Not 0: this CPU has taken a task in place of one that is not queued yet. */
	u32 exchanging;
	/* Thread id of a task that was given this CPU ahead of the order of S; 0: none. */
	u32 ahead_pid;
	/* Not 0: tasks that are pinned to this CPU may be queued. */
	u32 pinned_queued;
	/* What devices move for the running task since its last charge: requests, and bytes. Its
	 * account takes that over then (task.bpf.h). */
	u32 dma_pending_requests;
	u64 dma_pending_bytes;
	/* The running flow's virtual time at the last charge (ns), and the time
	 * of that charge (scx_bpf_now(), ns). */
	u64 charged_vtime_ns;
	u64 charged_at_ns;
	/* The mark of what one of a pair of programs has handled for the running task; 0: none. */
	u64 handled_mark;
	u64 events[DRFQ_NR_EVENTS];
	struct drfq_counter counters[DRFQ_PMU_EVENTS];
	/* Why a task was given this CPU ahead of the order of S (enum drfq_ahead), and its
	 * sum_exec_runtime then (ns). */
	u32 ahead_cause;
	u64 ahead_exec_ns;
	/* Time until which the budget of rescues is used up (scx_bpf_now(), ns), and where
	 * the searches for kernel threads, for other urgent tasks, for readers of RCU and for
	 * starved tasks go on. */
	u64 rescue_until_ns;
	struct drfq_cursor kthread_cursor;
	struct drfq_cursor other_cursor;
	struct drfq_cursor reader_cursor;
	struct drfq_cursor starved_cursor;
	/* When the last search for kernel threads was, and until when the one for other urgent
	 * tasks rests (jiffies). */
	u64 kthreads_seen_at;
	u64 other_rest_until;
	/* Not 0: the last task came from a far queue, or was looked for there (queue.bpf.h). */
	u32 far_turn;
	/* Not 0: the last rescue was an urgent one, so it is the turn of the longest wait. */
	u32 longest_turn;
	/* Kernel threads that were rescued on credit since the longest wait had its turn. */
	u32 on_credit;
	/* Rescues without a budget before the next one of a reader of RCU. */
	u32 overdue_turns;
	/* Urgent tasks that wait for this CPU, or run. Other CPUs change it too. */
	u32 urgent_waiting;
	/* Thread id of a task in a long read section of RCU (rescue.bpf.h; 0: none is known),
	 * since when it is known, and until when it is not rescued for that (jiffies). */
	u32 section_pid;
	u64 section_since;
	u64 section_rest_until;
	/* When a task last gave the CPU back to a far earlier one (scx_bpf_now(), ns). */
	u64 gave_back_at_ns;
} __attribute__((aligned(64)));

/*
 * How fast a group of tasks may move memory traffic (pace.bpf.h). The agent reads the
 * table; the scheduler alone writes to it. Each group is on a line of its own.
 */
struct drfq_pace {
	u64 ns_per_byte_q32; /* 32.32 fixed point; 0: the group has no pace */
	u64 due_ns; /* until when the pace is used up (scx_bpf_now()) */
	u64 bytes; /* what the group was charged since the scheduler was loaded */
	u64 paid_bytes; /* the same without what was ahead of its pace at drfq_read_paces */
} __attribute__((aligned(64)));

/* One record of the task iterator. User space reads it as bytes. */
struct drfq_task_stat {
	u32 pid;
	u32 tgid;
	u32 weight; /* effective weight; DRFQ_WEIGHT_ONE is 1 */
	u32 flags; /* enum drfq_task_flags */
	s32 nice;
	u32 nr_cpus_allowed;
	u64 cpu_ns; /* CPU time since the fork, as the kernel counts it */
	u64 charged_ns; /* the part of cpu_ns that this scheduler charged */
	u64 wait_ns; /* time runnable without a CPU since the fork; 0 if the kernel has no figure */
	u64 bytes; /* memory traffic charged, by CPUs and by devices */
	u64 dma_bytes; /* the part of bytes that devices moved */
	u64 cpu_vt_ns; /* virtual time of the CPUs */
	u64 mem_vt_ns; /* virtual time of memory */
	u64 register_vtime; /* virtual time of its traffic (2^register_shift ns) */
	u64 held_ns; /* total time held by delayed wake-up */
	u64 max_held_ns; /* longest hold */
	u64 at_ns; /* CLOCK_MONOTONIC when this record was written */
	u64 started_ns; /* CLOCK_MONOTONIC of the fork */
	u64 runs; /* times that it got a CPU since the fork; 0 if the kernel has no figure */
	u64 throttled_ns; /* the part of wait_ns in which it waited for a quota or a pace */
	u32 pace; /* group whose pace it has; 0: none */
	u32 reserved;
	char comm[DRFQ_COMM_LEN];
};

enum drfq_task_flags {
	DRFQ_TASK_BLOCKED = 1 << 0, /* not runnable */
	DRFQ_TASK_WOKEN = 1 << 1, /* woken and not run since (is_unblocked in the thesis) */
	DRFQ_TASK_HELD = 1 << 2, /* held by delayed wake-up */
	DRFQ_TASK_KTHREAD = 1 << 3, /* a kernel thread */
	DRFQ_TASK_INDEBTED = 1 << 4, /* a device moved bytes for it while it was blocked */
	DRFQ_TASK_PLACED = 1 << 5, /* waits at the place of its waker */
	DRFQ_TASK_SYNC = 1 << 6, /* its waker is about to block (SCX_WAKE_SYNC) */
	DRFQ_TASK_RULED = 1 << 7, /* a rule gives its weight; only in drfq_task_stat */
	DRFQ_TASK_THROTTLED = 1 << 8, /* waits for a quota or a pace; only in drfq_task_stat */
	DRFQ_TASK_GOES_ON = 1 << 9, /* its last packet ended while it could run on */
};

/* Argument of the SYSCALL program drfq_register_agent. */
struct drfq_agent_arg {
	u32 stats_pid; /* process that serves the agent's statistics, in the agent's
			* namespace of processes; 0: none */
};

/*
 * Argument of the SYSCALL program drfq_set_hw_id, which gives a task its hardware id
 * in the memory controller.
 */
struct drfq_hw_id_arg {
	u32 pid; /* thread id */
	u32 hw_id; /* DRFQ_HW_ID_SHARED takes its own id away */
};

/*
 * Argument of the SYSCALL program drfq_charge_mem, which charges a task for
 * traffic that the kernel does not report.
 */
struct drfq_traffic_arg {
	u32 pid; /* thread id */
	u32 moved_by_cpu; /* 0: a device moved the bytes; not 0: a CPU did */
	u64 bytes;
};

/* Argument of the SYSCALL program drfq_set_pace. */
struct drfq_pace_arg {
	u64 ns_per_byte_q32; /* 32.32 fixed point; 0: the group has no pace */
	u32 index; /* 1 to DRFQ_PACES - 1 */
	u32 reserved;
};

/* Argument of the SYSCALL program drfq_set_pace_group. */
struct drfq_pace_group_arg {
	u32 pid; /* thread id */
	u32 index; /* 0: no group */
};

/* Argument of the SYSCALL program drfq_set_task_weight. */
struct drfq_task_weight_arg {
	u32 pid; /* thread id */
	u32 weight; /* 1/DRFQ_WEIGHT_ONE; 0: by its nice value */
};

/* Argument of the SYSCALL program drfq_set_cgroup_weight. */
struct drfq_cgroup_weight_arg {
	u64 id; /* inode number of the cgroup's directory */
	u32 weight; /* 1/DRFQ_WEIGHT_ONE, which is cpu.weight 100 */
	u32 reserved;
};

#endif /* DRFQ_INTF_H */
