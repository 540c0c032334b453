/* SPDX-License-Identifier: GPL-2.0-only */
/* The counters of count.h, and the hooks that the compiler puts into the scheduler's code. */
#include <stdlib.h>

#include "model.h"

#define LINE_BYTES 64
#define MAX_REGIONS (2 + NATIVE_MAX_ARRAYS)
#define MAX_OPTIONS 32
#define MAX_SITES 8

/* What the CPUs did to one line since counting began. */
struct line {
	/* CPUs whose cache has the line as it is now, and those that ever stored to it. */
	struct cpumask sharers, writers;
	u64 loads, stores, moves;
	u64 sites[MAX_SITES], site_stores[MAX_SITES];
};

/* Consecutive lines of the scheduler's variables, or of one map's values. */
struct region {
	uintptr_t start;
	size_t lines;
	struct line *at;
};

struct counter {
	u64 counts[COUNT_ENTRIES][COUNT_NR_CALLBACKS][COUNT_KINDS];
	u64 entries[COUNT_ENTRIES];
	enum count_entry entry;
	enum count_callback callback;
	struct region regions[MAX_REGIONS];
	u32 nr_regions;
};

/* The counter of the machine whose callback runs; NULL: nothing is counted now. */
static struct counter *counting;

static struct {
	uintptr_t start, end;
} options[MAX_OPTIONS];
static u32 nr_options;

void count_option(const volatile void *option, size_t bytes)
{
	uintptr_t start = (uintptr_t)option;

	for (u32 i = 0; i < nr_options; i++)
		if (options[i].start == start)
			return;
	if (nr_options == MAX_OPTIONS)
		abort();
	options[nr_options].start = start;
	options[nr_options++].end = start + bytes;
}

static void add(enum count_kind kind, u64 times)
{
	counting->counts[counting->entry][counting->callback][kind] += times;
}

static void add_region(struct counter *c, const char *start, size_t bytes)
{
	uintptr_t first = (uintptr_t)start / LINE_BYTES * LINE_BYTES;
	size_t lines = ((uintptr_t)start + bytes - first + LINE_BYTES - 1) / LINE_BYTES;

	if (!bytes)
		return;
	if (c->nr_regions == MAX_REGIONS)
		abort();
	c->regions[c->nr_regions++] = (struct region){
		.start = first, .lines = lines, .at = calloc(lines, sizeof(struct line))};
}

static struct line *line_of(uintptr_t address)
{
	for (u32 i = 0; i < counting->nr_regions; i++) {
		struct region *region = &counting->regions[i];
		size_t line = (address - region->start) / LINE_BYTES;

		if (address >= region->start && line < region->lines)
			return &region->at[line];
	}
	return NULL;
}

static void note_site(struct line *line, uintptr_t site)
{
	for (u32 i = 0; i < MAX_SITES; i++) {
		if (!line->sites[i])
			line->sites[i] = site;
		if (line->sites[i] != site)
			continue;
		line->site_stores[i]++;
		return;
	}
}

static void load_line(struct line *line, s32 cpu)
{
	line->loads++;
	if (cpumask_has(&line->sharers, cpu))
		return;
	cpumask_set(&line->sharers, cpu, true);
	line->moves++;
	add(COUNT_LINE_MOVES, 1);
}

static bool only_sharer(const struct line *line, s32 cpu)
{
	for (u32 i = 0; i < NATIVE_MAX_CPUS / 64; i++)
		if (line->sharers.bits[i] != (i == cpu / 64 ? 1ULL << (cpu % 64) : 0))
			return false;
	return true;
}

static void store_line(struct line *line, s32 cpu, uintptr_t site)
{
	line->stores++;
	note_site(line, site);
	cpumask_set(&line->writers, cpu, true);
	if (only_sharer(line, cpu))
		return;
	line->sharers = (struct cpumask){};
	cpumask_set(&line->sharers, cpu, true);
	line->moves++;
	add(COUNT_LINE_MOVES, 1);
}

static bool is_option(uintptr_t address)
{
	for (u32 i = 0; i < nr_options; i++)
		if (address >= options[i].start && address < options[i].end)
			return true;
	return false;
}

static void access_memory(uintptr_t address, bool store, void *site)
{
	s32 cpu = machine_in_use->this_cpu, owner = scheduler_slot_owner((void *)address);
	struct line *line = line_of(address);

	if (!line || (!store && is_option(address)))
		return;
	if (owner < 0 && (store || line->stores))
		add(store ? COUNT_SHARED_STORES : COUNT_SHARED_LOADS, 1);
	else if (owner >= 0 && owner != cpu)
		add(store ? COUNT_REMOTE_STORES : COUNT_REMOTE_LOADS, 1);
	if (store)
		store_line(line, cpu, (uintptr_t)site);
	else
		load_line(line, cpu);
}

void count_atomic(const volatile void *address)
{
	if (!counting)
		return;
	add(COUNT_ATOMICS, 1);
	access_memory((uintptr_t)address, true, __builtin_return_address(0));
}

void count_list_step(void)
{
	if (counting)
		add(COUNT_LIST_STEPS, 1);
}

/* The kernel inserts a task after its callback has returned. */
void count_kernel_steps(u32 steps)
{
	struct counter *c = machine_in_use->counter;

	if (c)
		c->counts[c->entry][c->callback][COUNT_KERNEL_STEPS] += steps;
}

/* ── The compiler's hooks: -fsanitize-coverage in the scheduler's code ─── */

#define COUNT_HOOK(name, store)                                                                    \
	void __sanitizer_cov_##name(const void *address);                                          \
	void __sanitizer_cov_##name(const void *address)                                           \
	{                                                                                          \
		if (counting)                                                                      \
			access_memory((uintptr_t)address, store, __builtin_return_address(0));     \
	}

COUNT_HOOK(load1, false)
COUNT_HOOK(load2, false)
COUNT_HOOK(load8, false)
COUNT_HOOK(load16, false)
COUNT_HOOK(store1, true)
COUNT_HOOK(store2, true)
COUNT_HOOK(store4, true)
COUNT_HOOK(store8, true)
COUNT_HOOK(store16, true)

void __sanitizer_cov_load4(const void *address);
void __sanitizer_cov_load4(const void *address)
{
	struct machine *m = machine_in_use;

	if (counting)
		access_memory((uintptr_t)address, false, __builtin_return_address(0));
	if (m && m->loads_until_idle && address == scheduler_busy_cpus() && !--m->loads_until_idle)
		--*scheduler_busy_cpus();
}

/* -finstrument-functions in the kernel's functions. Those that the scheduler calls count. */
void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	bool lookup = function == (void *)native_array_at || function == (void *)native_storage;

	if (counting && scheduler_has_code_at(from))
		add(lookup ? COUNT_LOOKUPS : COUNT_KFUNCS, 1);
}

void __cyg_profile_func_exit(void *function, void *from)
{
	(void)function;
	(void)from;
}

/* ── The model's side ──────────────────────────────────────────────────── */

void count_entry(struct machine *m, enum count_entry entry)
{
	if (!m->counter)
		return;
	m->counter->entry = entry;
	m->counter->entries[entry]++;
}

s32 count_enter(struct machine *m, enum count_callback callback)
{
	s32 around = counting ? (s32)counting->callback : -1;

	counting = m->counter;
	if (!counting)
		return -1;
	counting->callback = callback;
	add(COUNT_CALLS, 1);
	return around;
}

void count_leave(s32 around)
{
	if (around < 0)
		counting = NULL;
	else
		counting->callback = (enum count_callback)around;
}

void count_map(struct machine *m, const char *values, size_t bytes)
{
	if (m->counter)
		add_region(m->counter, values, bytes);
}

#define COUNTED(returned, name, parameters, arguments)                                             \
	static returned counted_##name parameters                                                  \
	{                                                                                          \
		s32 around = count_enter(machine_in_use, COUNT_##name);                            \
		returned result = scheduler_ops()->name arguments;                                 \
		count_leave(around);                                                               \
		return result;                                                                     \
	}
#define COUNTED_VOID(name, parameters, arguments)                                                  \
	static void counted_##name parameters                                                      \
	{                                                                                          \
		s32 around = count_enter(machine_in_use, COUNT_##name);                            \
		scheduler_ops()->name arguments;                                                   \
		count_leave(around);                                                               \
	}

COUNTED(s32, select_cpu, (struct task_struct * p, s32 cpu, u64 flags), (p, cpu, flags))
COUNTED_VOID(enqueue, (struct task_struct * p, u64 flags), (p, flags))
COUNTED_VOID(dequeue, (struct task_struct * p, u64 flags), (p, flags))
COUNTED_VOID(dispatch, (s32 cpu, struct task_struct *prev), (cpu, prev))
COUNTED_VOID(tick, (struct task_struct * p), (p))
COUNTED_VOID(runnable, (struct task_struct * p, u64 flags), (p, flags))
COUNTED_VOID(running, (struct task_struct * p), (p))
COUNTED_VOID(stopping, (struct task_struct * p, bool runnable), (p, runnable))
COUNTED_VOID(quiescent, (struct task_struct * p, u64 flags), (p, flags))
COUNTED(bool, yield, (struct task_struct * from, struct task_struct *to), (from, to))
COUNTED_VOID(update_idle, (s32 cpu, bool idle), (cpu, idle))

/* Callbacks that the scheduler leaves out stay out. */
#define COUNT_REPLACE(name)                                                                        \
	if (m->counted_ops.name)                                                                   \
		m->counted_ops.name = counted_##name;

void machine_count_start(struct machine *m)
{
	struct counter *c = calloc(1, sizeof(*c));

	load_globals(m);
	count_free(m);
	m->counter = c;
	scheduler_each_section(c, (void (*)(void *, const char *, size_t))add_region);
	for (u32 i = 0; i < NATIVE_MAX_ARRAYS; i++)
		add_region(c, m->arrays[i].values, m->arrays[i].bytes);
	m->counted_ops = *scheduler_ops();
	COUNT_REPLACE(select_cpu)
	COUNT_REPLACE(enqueue)
	COUNT_REPLACE(dequeue)
	COUNT_REPLACE(dispatch)
	COUNT_REPLACE(tick)
	COUNT_REPLACE(runnable)
	COUNT_REPLACE(running)
	COUNT_REPLACE(stopping)
	COUNT_REPLACE(quiescent)
	COUNT_REPLACE(yield)
	COUNT_REPLACE(update_idle)
	m->ops = &m->counted_ops;
}

void count_free(struct machine *m)
{
	if (!m->counter)
		return;
	for (u32 i = 0; i < m->counter->nr_regions; i++)
		free(m->counter->regions[i].at);
	free(m->counter);
	m->counter = NULL;
}

u64 machine_count(const struct machine *m, u32 entry, u32 callback, u32 kind)
{
	return m->counter->counts[entry][callback][kind];
}

u64 machine_count_entries(const struct machine *m, u32 entry)
{
	return m->counter->entries[entry];
}

const char *machine_count_callback_name(u32 callback)
{
#define COUNT_CALLBACK_NAME(name) #name,
	static const char *const names[] = {COUNT_CALLBACKS(COUNT_CALLBACK_NAME)};

	return callback < COUNT_NR_CALLBACKS ? names[callback] : NULL;
}

static u32 weight_of(const struct cpumask *mask)
{
	u32 cpus = 0;

	for (u32 i = 0; i < NATIVE_MAX_CPUS / 64; i++)
		cpus += (u32)__builtin_popcountll(mask->bits[i]);
	return cpus;
}

/* Where the program was loaded, from the linker: addresses in it become those of its file. */
extern char __executable_start[];

static uintptr_t load_base(void)
{
	return (uintptr_t)__executable_start;
}

bool machine_count_line(const struct machine *m, u32 index, struct count_line *line)
{
	const struct counter *c = m->counter;

	for (u32 i = 0; i < c->nr_regions; i++) {
		const struct region *region = &c->regions[i];

		for (size_t at = 0; at < region->lines; at++) {
			const struct line *found = &region->at[at];

			if (!found->stores || index--)
				continue;
			*line = (struct count_line){
				.address =
					region->start + at * LINE_BYTES - (i < 2 ? load_base() : 0),
				.loads = found->loads,
				.stores = found->stores,
				.moves = found->moves,
				.cpus = weight_of(&found->writers),
			};
			memcpy(line->site_stores, found->site_stores, sizeof(line->site_stores));
			for (u32 s = 0; s < MAX_SITES && found->sites[s]; s++)
				line->sites[s] = found->sites[s] - load_base();
			return true;
		}
	}
	return false;
}
