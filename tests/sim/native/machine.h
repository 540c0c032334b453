/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model of the kernel around the scheduler: what kernel/sched/core.c and
 * kernel/sched/ext.c do with run queues, DSQs, idle CPUs and callbacks.
 *
 * Every entry point takes the time (ns) and acts at it. What must follow later
 * is left in the machine for the caller: CPUs that must schedule
 * (machine_take_resched) and the timer (machine_timer_due_ns).
 */
#ifndef DRFQ_NATIVE_MACHINE_H
#define DRFQ_NATIVE_MACHINE_H

#include <scx/common.bpf.h>

#include "scheduler.h"

#define NATIVE_NEVER UINT64_MAX

struct machine;

/* A machine whose CPUs all idle, with the scheduler loaded. */
/* @smt: CPUs 2n and 2n + 1 are threads of one core. */
struct machine *machine_new(const struct scheduler_options *options, u64 jiffy_ns, bool smt);
void machine_free(struct machine *m);
/* The task that runs on @cpu; NULL: none of ours does. */
struct task_struct *machine_curr(const struct machine *m, s32 cpu);
/*
 * The scheduler ends, and is loaded again with the accounts that it left. Other tasks may run on
 * the CPUs then.
 */
void machine_restart(struct machine *m, u64 now_ns, const struct scheduler_options *options);
void machine_bypass(struct machine *m, u64 now_ns, bool bypassed);
/* How many CPUs count as busy. */
u32 machine_busy_cpus(struct machine *m);
/* Just before the scheduler loads that number so many times from now, it is one less: another CPU
 * becomes idle. 0: it does not. */
void machine_idle_at_load(struct machine *m, u32 loads);

/* Why the scheduler asked to be ended, or NULL (scx_bpf_error). */
const char *machine_error(const struct machine *m);

/* Stores the CPUs that must schedule in @cpus, which has room for all. Returns how many they are;
 * asking clears them. */
u32 machine_take_rescheds(struct machine *m, s32 *cpus);
u64 machine_timer_due_ns(const struct machine *m);
void machine_timer_fire(struct machine *m, u64 now_ns);

/*
 * A task that exists but is not awake. @parent: the task that forks it, which
 * runs on a CPU; NULL: a task outside sched_ext, on @cpu.
 */
struct task_struct *machine_task_new(struct machine *m, u64 now_ns, struct task_struct *parent,
				     const struct cpumask *allowed, s32 cpu, bool kthread);
void machine_task_free(struct task_struct *p);
s32 machine_task_cpu(const struct task_struct *p);
/* The order of its creation, from 0. */
u32 machine_task_number(const struct task_struct *p);
u64 machine_task_cpu_ns(const struct task_struct *p);

/* A task that runs on @cpu while the scheduler is loaded, which happens on another CPU. */
void machine_adopt_running(struct machine *m, u64 now_ns, struct task_struct *p, s32 cpu);

/* A new task is woken for the first time; a sleeping one is woken by @waker_cpu
 * (-1: an interrupt on the CPU where it slept). */
void machine_wake_new(struct machine *m, u64 now_ns, struct task_struct *p);
void machine_wake(struct machine *m, u64 now_ns, struct task_struct *p, s32 waker_cpu, bool sync);

/* The running task of @cpu blocks, or ends. The caller then schedules @cpu. */
void machine_block(struct machine *m, u64 now_ns, s32 cpu);
void machine_exit(struct machine *m, u64 now_ns, s32 cpu);
/* The running task calls sched_yield(). The caller then schedules @cpu. */
void machine_yield(struct machine *m, u64 now_ns, s32 cpu);

/* __schedule(): returns the task that runs on @cpu from now on, NULL if none. */
struct task_struct *machine_schedule(struct machine *m, u64 now_ns, s32 cpu);
void machine_tick(struct machine *m, u64 now_ns, s32 from, s32 cpu);
/* A task of a higher class takes @cpu, which idles or runs a task of ours; it gives the CPU back.
 * The caller then schedules @cpu. */
void machine_take_cpu(struct machine *m, u64 now_ns, s32 cpu);
void machine_take_idle_cpu(struct machine *m, u64 now_ns, s32 cpu);
void machine_give_cpu(struct machine *m, s32 cpu);
/* On @cpu one task of a higher class follows another one. */
void machine_switch_above(struct machine *m, u64 now_ns, s32 cpu);
/* Brings the running task's times up to @now_ns. */
void machine_update_curr(struct machine *m, u64 now_ns, s32 cpu);
/* What is left of the running task's slice, ns. */
u64 machine_slice_left_ns(const struct machine *m, s32 cpu);

/* sched_setaffinity() and setpriority(), from any CPU, on a task in any state. */
void machine_set_affinity(struct machine *m, u64 now_ns, struct task_struct *p,
			  const struct cpumask *allowed);
void machine_renice(struct machine *m, u64 now_ns, struct task_struct *p, s32 nice);

/* The task is the agent. */
void machine_set_agent(struct machine *m, const struct task_struct *p);
void machine_set_agent_stats(struct machine *m, const struct task_struct *p);
/* The task is @nesting read sections of RCU deep. */
void machine_set_rcu_nesting(struct machine *m, struct task_struct *p, s32 nesting);
/* The sleeping task changes to another scheduling class, and runs there. */
void machine_leave_class(struct machine *m, u64 now_ns, struct task_struct *p);
/* It sleeps there, and comes back. */
void machine_join_class(struct machine *m, u64 now_ns, struct task_struct *p);
/* The task has ended but for its last switch, and its parent has reaped it. */
void machine_reap(struct task_struct *p);
/* The running @p calls set_current_state(), or takes that back. */
void machine_set_about_to_sleep(struct task_struct *p, bool sleeps);
/* All threads of its process shall exit. */
void machine_kill(struct task_struct *p);

/* A cgroup with this cpu.weight below @parent (NULL: the root group); tasks start in the root. */
struct cgroup *machine_cgroup_new(struct machine *m, struct cgroup *parent, u32 weight);
void machine_cgroup_set_weight(struct machine *m, struct cgroup *cgrp, u32 weight);
/* Writes cpu.max; a quota of 0 stands for max. */
void machine_cgroup_set_quota(struct machine *m, struct cgroup *cgrp, u64 period_us, u64 quota_us);
void machine_cgroup_set_idle(struct machine *m, struct cgroup *cgrp, bool idle);
/* The agent's rules give a weight (1/DRFQ_WEIGHT_ONE). */
void machine_rule_cgroup(struct machine *m, struct cgroup *cgrp, u32 weight);
void machine_rule_task(struct machine *m, struct task_struct *p, u32 weight);
/* The agent sets the pace of a group (32.32 fixed point; 0: none), and puts a task into one. */
void machine_pace(struct machine *m, u32 index, u64 ns_per_byte_q32);
void machine_pace_group(struct machine *m, struct task_struct *p, u32 index);
/* The agent asks what a group has paid for (bytes). */
u64 machine_pace_paid(struct machine *m, u32 index);
/* A task in any state moves to another group. */
void machine_cgroup_move(struct machine *m, u64 now_ns, struct task_struct *p, struct cgroup *to);

/* Traffic (bytes) that the counter of @cpu counts from now on, in addition. */
void machine_count_traffic(struct machine *m, s32 cpu, u64 bytes);
void machine_count_writes(struct machine *m, s32 cpu, u64 bytes);
/* The counter of @cpu dies, as a pinned one does that is evicted; another takes its place. */
void machine_counter_dies(struct machine *m, s32 cpu);
void machine_counter_opens(struct machine *m, u64 now_ns, s32 cpu);
/* Of the time that it has been open, it had no hardware for so long, in addition. */
void machine_counter_waits(struct machine *m, s32 cpu, u64 ns);
/* The running task of @cpu submits @bytes to a device; @layers stacked devices above it pass the
 * request on. @in_place: they remap the request instead of making another one. @partition: the
 * device is a partition. */
void machine_submit(struct machine *m, s32 cpu, u32 bytes, u32 layers, bool in_place,
		    bool partition);
/* A request that it has submitted would have to wait, and must not: it ends. */
void machine_refuse(struct machine *m, s32 cpu, u32 bytes);
/* The same to a stacked device that remaps the request in parts. */
void machine_split(struct machine *m, s32 cpu, u32 bytes, u32 parts);
/* By what the kernel tells of a command of a program's own making. */
enum pass_through {
	NATIVE_EXECUTED,
	NATIVE_EXECUTED_NOWAIT,
	NATIVE_ISSUED, /* BPF follows no functions. */
};

/* The running task of @cpu sends such a command to a device, which moves @bytes. */
void machine_pass_through(struct machine *m, s32 cpu, u32 bytes, enum pass_through told);
/* How a request tells of a page. */
enum file_page_tail {
	NATIVE_HEAD,
	NATIVE_TAIL_BY_ADDRESS,
	NATIVE_TAIL_BY_MASK,
};

#define NATIVE_FILES 4

/* A page of a file, or a copy of one. */
struct file_page {
	u64 index; /* of the folio's first page */
	u32 file; /* below NATIVE_FILES */
	u32 tail; /* enum file_page_tail */
	bool block_device; /* the file is one */
	bool copied; /* the page is no part of the file */
};

/* @p is a thread of the process of @leader. */
void machine_join(struct task_struct *p, struct task_struct *leader);
/* @p is a thread of io_uring: a worker for @submitter, or one that polls (NULL). */
void machine_serve_ring(struct task_struct *p, struct task_struct *submitter);
/* @p, which runs, dirties the page, or submits a request (@op) of @bytes that begin with it. */
void machine_dirty(struct machine *m, const struct task_struct *p, const struct file_page *at);
void machine_write_out(struct machine *m, const struct task_struct *p, const struct file_page *at,
		       u32 op, u32 bytes);
/* The kernel skips the first or the second program of each pair from now on. */
void machine_skip(struct machine *m, bool first, bool second);
/* Which disk of a stripe (raid5) a request is for; the upper one is for the middle one. */
enum stripe_disk {
	NATIVE_NO_STRIPE,
	NATIVE_STRIPE_FIRST,
	NATIVE_STRIPE_MIDDLE,
	NATIVE_STRIPE_LAST,
};

/* How a stacked device passes a request on from a kernel thread. */
struct passing {
	u32 op;
	u32 bytes;
	bool clones; /* the lower request shares the pages of the upper one (raid1) */
	bool copies; /* it has copies, and leads to the upper one (dm-crypt) */
	bool behind; /* the same in another way (raid1, where a disk writes behind the others) */
	bool reused; /* it comes so late that other requests use the memory of the upper one */
	bool twice; /* a second disk gets what the first one got, when the upper one has ended */
	enum stripe_disk disk;
};

/* @p, which runs, submits a request that begins with the page; @thread passes it on. */
void machine_pass_on(struct machine *m, const struct task_struct *p,
		     const struct task_struct *thread, const struct file_page *at,
		     const struct passing *passing);
/* @p, which runs, submits a request that begins with the page, and a limit delays it. @thread
 * queues it then. @refused: it would have to wait there, and must not. */
void machine_delay(struct machine *m, const struct task_struct *p, const struct task_struct *thread,
		   const struct file_page *at, u32 op, u32 bytes, bool refused);
/* Kernel thread @p works for a queue of work; @local: it writes what others wrote to a device of
 * its own (the loop driver). */
void machine_work(struct task_struct *p, bool local);
/* The id of @p has a new owner. */
void machine_reuse_id(struct task_struct *p);

#define NATIVE_SOCKETS 4

/* A packet that a network device moves. */
struct packet {
	u32 bytes; /* on the cable, all headers included */
	u32 joined; /* packets that the kernel made one of; 0: it does not tell */
	u32 header_bytes; /* of TCP or UDP */
	u32 socket; /* below NATIVE_SOCKETS; else it is for no socket here */
	bool tcp;
	bool by_cpu; /* it crosses no device (loopback) */
	bool looped_back; /* the card's own multicast comes back by the kernel */
	bool above_card; /* it reaches its socket by way of a VLAN */
	bool modem; /* it has no link layer, of which the kernel then knows no header */
};

/* The kernel makes a socket for itself. */
void machine_kernel_socket(struct machine *m, u32 socket);
/* The state of its connection (skc_state). */
void machine_socket_state(struct machine *m, u32 socket, u32 state);

/* The packet leaves or arrives. */
void machine_packet_leaves(struct machine *m, s32 cpu, const struct packet *packet);
void machine_packet_arrives(struct machine *m, s32 cpu, const struct packet *packet);
/* @p, which runs, sends or receives on a socket. Each one is of another kind. */
void machine_use_socket(struct machine *m, const struct task_struct *p, u32 socket, bool sends);
/* A device, or a CPU by what a memory controller counts, moves @bytes for a task. */
void machine_add_dma(struct machine *m, struct task_struct *p, u64 bytes);
void machine_add_counted(struct machine *m, struct task_struct *p, u64 bytes);
void machine_set_weight(struct machine *m, struct task_struct *p, u32 weight);

/* The scheduler's state, for assertions. */
u64 machine_v_ns(struct machine *m);
u64 machine_bus_v_ns(struct machine *m);
/* The virtual time in the label of @cpu. */
u64 machine_register_vtime(struct machine *m, s32 cpu);
u64 machine_slot_vtime_ns(struct machine *m, s32 cpu);
u64 machine_event_count(struct machine *m, const char *name);
/* wait_ns of the record that the task iterator writes for the agent. */
u64 machine_task_wait_ns(struct machine *m, u64 now_ns, struct task_struct *p);
void machine_task_view(struct machine *m, struct task_struct *p, struct scheduler_task *view);

/* The CPU whose count of urgent tasks is wrong, or leaves out one that waits for it; -1: none. */
s32 machine_miscounted_urgent(struct machine *m);

/* The LLC whose queue a task is on; -1: on none. */
s32 machine_task_queue(const struct machine *m, const struct task_struct *p);
/* Where a task is. 0: nowhere. 1: on a run queue's DSQ. 2: on the DSQ of held tasks. 3: on a
 * local DSQ. 4: running. */
u32 machine_task_place(const struct machine *m, const struct task_struct *p);
/* Tasks on the DSQ of held tasks; whether any CPU idles and nothing has claimed it. */
u32 machine_nr_held(const struct machine *m);
bool machine_any_cpu_is_idle(const struct machine *m);
bool machine_cpu_is_idle(const struct machine *m, s32 cpu);

/* For tests of one callback: puts a task on a DSQ at a virtual time; starts a packet of a task
 * that is on no CPU, at a virtual time, on @cpu. The machine is unusable for
 * events after that. */
void machine_test_place(struct machine *m, struct task_struct *p, u64 dsq_id, u64 vtime);
u64 machine_test_choice(struct machine *m, s32 cpu);
void machine_test_run(struct machine *m, struct task_struct *p, s32 cpu, u64 vtime);

/* Two threads change groups at the same time, for @rounds rounds. Returns after how many of
 * them a sum of active weights was wrong. Not for several threads. */
u64 race_groups(u64 rounds);

#endif /* DRFQ_NATIVE_MACHINE_H */
