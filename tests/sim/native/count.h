/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts what the scheduler's callbacks do: loads, stores and atomic operations on its shared
 * variables, calls of the kernel, steps through queues, and cache lines that move between CPUs.
 *
 * A line moves when a CPU loads it after another CPU stored to it, or stores to it after another
 * CPU had it. Each CPU's cache holds every line, so no line moves for lack of room.
 */
#ifndef DRFQ_NATIVE_COUNT_H
#define DRFQ_NATIVE_COUNT_H

#include <scx/common.bpf.h>

struct machine;

/* What the kernel does while callbacks run. */
enum count_entry {
	COUNT_OTHER,
	COUNT_WAKE, /* try_to_wake_up(), or the first wake-up of a new task */
	COUNT_SWITCH, /* __schedule(), with the block, yield or exit that led to it */
	COUNT_TICK,
	COUNT_TIMER,
	COUNT_ENTRIES,
};

/* X(NAME): the callbacks whose operations are counted apart. */
#define COUNT_CALLBACKS(X)                                                                         \
	X(select_cpu)                                                                              \
	X(enqueue)                                                                                 \
	X(dequeue)                                                                                 \
	X(dispatch)                                                                                \
	X(tick)                                                                                    \
	X(runnable)                                                                                \
	X(running)                                                                                 \
	X(stopping)                                                                                \
	X(quiescent)                                                                               \
	X(yield)                                                                                   \
	X(update_idle)                                                                             \
	X(timer)

#define COUNT_CALLBACK_ENUM(name) COUNT_##name,
enum count_callback { COUNT_CALLBACKS(COUNT_CALLBACK_ENUM) COUNT_NR_CALLBACKS };

/* The operations. Loads and stores are those of the scheduler's variables and maps, without
 * the options, which nothing writes after load. */
enum count_kind {
	COUNT_CALLS,
	COUNT_REMOTE_LOADS, /* from the slot of another CPU */
	COUNT_REMOTE_STORES,
	COUNT_SHARED_LOADS, /* from a variable or map that is no CPU's */
	COUNT_SHARED_STORES,
	COUNT_LINE_MOVES,
	COUNT_ATOMICS,
	COUNT_LIST_STEPS, /* tasks that the scheduler's own loops over queues visit */
	COUNT_LOOKUPS, /* of maps and of local storage */
	COUNT_KFUNCS, /* other calls of kfuncs and helpers */
	COUNT_KERNEL_STEPS, /* tasks and tree levels that the kernel's queues visit */
	COUNT_KINDS,
};

/* One cache line of shared variables, as an answer to machine_count_line(). */
struct count_line {
	u64 address; /* in the scheduler's variables or maps */
	u64 loads, stores, moves;
	u32 cpus; /* that stored to it */
	/* The instructions that stored to it, as offsets in the program, and how often. */
	u64 sites[8];
	u64 site_stores[8];
};

/* Counts from now on, from 0. */
void machine_count_start(struct machine *m);
u64 machine_count(const struct machine *m, u32 entry, u32 callback, u32 kind);
const char *machine_count_callback_name(u32 callback);
/* How often the kernel came from @entry. */
u64 machine_count_entries(const struct machine *m, u32 entry);
/* The @index-th line that a CPU stored to; false: there are no more. */
bool machine_count_line(const struct machine *m, u32 index, struct count_line *line);

/* For the model. */
void count_free(struct machine *m);
void count_entry(struct machine *m, enum count_entry entry);
/* Around each call of a callback. Returns what count_leave() needs: -1, or the callback around. */
s32 count_enter(struct machine *m, enum count_callback callback);
void count_leave(s32 around);
void count_list_step(void);
void count_kernel_steps(u32 steps);
void count_atomic(const volatile void *address);
/* Loads of an option are not counted. */
void count_option(const volatile void *option, size_t bytes);
/* A map's values are counted like variables. */
void count_map(struct machine *m, const char *values, size_t bytes);

#endif /* DRFQ_NATIVE_COUNT_H */
