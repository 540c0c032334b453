/* SPDX-License-Identifier: GPL-2.0-only */
/* BPF helpers, maps, cpumasks, the timer, and the kernel's default selection of idle CPUs. */
#include <stdlib.h>

#include "model.h"

#define KTIME_AHEAD_NS 7000000000ULL

struct machine *machine_in_use;

void cpumask_set(struct cpumask *mask, s32 cpu, bool value)
{
	u64 bit = 1ULL << (cpu % 64);

	mask->bits[cpu / 64] = value ? mask->bits[cpu / 64] | bit : mask->bits[cpu / 64] & ~bit;
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpumask_has(mask, (s32)cpu);
}

u32 bpf_cpumask_first(const struct cpumask *mask)
{
	for (u32 cpu = 0; cpu < machine_in_use->nr_cpus; cpu++)
		if (cpumask_has(mask, (s32)cpu))
			return cpu;
	return machine_in_use->nr_cpus;
}

void *native_array_at(void *map, u32 key, size_t value_bytes, u32 max_entries)
{
	struct array_map *a = machine_in_use->arrays;

	while (a->map && a->map != map)
		if (++a == machine_in_use->arrays + NATIVE_MAX_ARRAYS)
			abort();
	if (!a->map) {
		a->map = map;
		a->value_bytes = value_bytes;
		a->bytes = max_entries * value_bytes;
		/* Values may have cache lines of their own. */
		a->values = aligned_alloc(64, (a->bytes + 63) & ~(size_t)63);
		if (!a->values)
			abort();
		memset(a->values, 0, a->bytes);
		count_map(machine_in_use, a->values, a->bytes);
	}
	return key < max_entries ? a->values + key * value_bytes : NULL;
}

static struct hash_map *hash_of(const void *map)
{
	struct hash_map *h = machine_in_use->hashes;

	while (h->map && h->map != map)
		if (++h == machine_in_use->hashes + NATIVE_HASHES)
			abort();
	h->map = map;
	return h;
}

static void hash_remove(struct hash_map *h, u32 at)
{
	h->nr--;
	memmove(&h->entries[at], &h->entries[at + 1], (h->nr - at) * sizeof(h->entries[0]));
}

void *native_hash_at(void *map, const void *key, size_t key_bytes)
{
	struct hash_map *h = hash_of(map);

	for (u32 i = 0; i < h->nr; i++)
		if (!memcmp(h->entries[i].key, key, key_bytes))
			return h->entries[i].value;
	return NULL;
}

void native_hash_update(void *map, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes)
{
	struct hash_map *h = hash_of(map);
	void *at = native_hash_at(map, key, key_bytes);

	if (key_bytes > sizeof(h->entries->key) || value_bytes > sizeof(h->entries->value))
		abort();
	if (!at) {
		if (h->nr == NATIVE_HASH_ENTRIES)
			hash_remove(h, 0);
		memcpy(h->entries[h->nr].key, key, key_bytes);
		at = h->entries[h->nr++].value;
	}
	memcpy(at, value, value_bytes);
}

void native_hash_delete(void *map, const void *key, size_t key_bytes)
{
	struct hash_map *h = hash_of(map);

	for (u32 i = 0; i < h->nr; i++)
		if (!memcmp(h->entries[i].key, key, key_bytes)) {
			hash_remove(h, i);
			return;
		}
}

void *native_storage(void **storage, size_t value_bytes, u64 flags)
{
	if (!*storage && (flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		*storage = calloc(1, value_bytes);
	return *storage;
}

/* @second: the CPU's second counter, of writes. */
long native_perf_read(bool second, struct bpf_perf_event_value *value)
{
	struct machine *m = machine_in_use;

	const struct cpu_rq *rq = &m->rqs[m->this_cpu];

	if (rq->counter_dead)
		return -EBUSY;
	value->counter = second ? rq->writes : rq->traffic - rq->counter_from;
	value->enabled = m->now_ns - rq->counter_opened_ns;
	value->running = value->enabled - rq->counter_waited_ns;
	return 0;
}

u64 scx_bpf_now(void)
{
	return strand_wait(STRAND_NOW, 0, machine_in_use->now_ns);
}

/* CLOCK_MONOTONIC and the clock of the run queues have nothing to do with each other. */
u64 bpf_ktime_get_ns(void)
{
	return machine_in_use->now_ns + KTIME_AHEAD_NS;
}

u64 bpf_jiffies64(void)
{
	return machine_in_use->now_ns / machine_in_use->jiffy_ns;
}

/* SplitMix64 (Steele, Lea and Flood, 2014): the same run every time. */
u32 bpf_get_prandom_u32(void)
{
	u64 z = machine_in_use->random += 0x9e3779b97f4a7c15ULL;
	u64 told = strand_wait(STRAND_DRAW, 0, NATIVE_NEVER);

	if (told != NATIVE_NEVER)
		return (u32)told;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (u32)((z ^ (z >> 31)) >> 32);
}

s32 bpf_get_smp_processor_id(void)
{
	return machine_in_use->this_cpu;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	struct machine *m = machine_in_use;

	return m->forking ? m->forking : m->rqs[m->this_cpu].curr;
}

u64 bpf_get_current_pid_tgid(void)
{
	struct task_struct *p = bpf_get_current_task_btf();

	return p ? (u64)p->tgid << 32 | (u32)p->pid : 0;
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	struct machine *m = machine_in_use;

	if (pid <= 0 || (u32)pid > m->nr_tasks || m->tasks[pid - 1]->exit_state == EXIT_DEAD)
		return NULL;
	return m->tasks[pid - 1];
}

/* The machine has one namespace of processes. */
struct task_struct *bpf_task_from_vpid(s32 vpid)
{
	return bpf_task_from_pid(vpid);
}

void bpf_task_release(struct task_struct *p)
{
	(void)p;
}

struct rq runqueues;

void *bpf_per_cpu_ptr(const struct rq *rqs, u32 cpu)
{
	(void)rqs;
	return cpu < machine_in_use->nr_cpus ? &machine_in_use->rqs[cpu].kernel : NULL;
}

const int __preempt_count;

const void *bpf_this_cpu_ptr(const int *counts)
{
	(void)counts;
	return &machine_in_use->preempt_count;
}

long bpf_timer_init(struct bpf_timer *timer, void *map, u64 clock)
{
	(void)map;
	(void)clock;
	machine_in_use->timer = timer;
	return 0;
}

long native_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	timer->callback = (int (*)(void *, int *, struct bpf_timer *))callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	(void)timer;
	(void)flags;
	machine_in_use->timer_due_ns = machine_in_use->now_ns + ns;
	return 0;
}

long bpf_probe_read_kernel(void *to, u32 bytes, const void *from)
{
	/* No address of the kernel is so small, nor is one of the model. */
	if ((uintptr_t)from < 1ULL << 32)
		return -EFAULT;
	memcpy(to, from, bytes);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, u32 bytes, const void *from)
{
	memcpy(to, from, bytes);
	return bytes;
}

long bpf_seq_write(struct seq_file *seq, const void *data, u32 bytes)
{
	memcpy(seq, data, bytes);
	return 0;
}

struct cgroup *scx_bpf_task_cgroup(struct task_struct *p)
{
	return p->cgroup;
}

struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, s32 level)
{
	while (cgrp && cgrp->level > level)
		cgrp = cgrp->parent;
	return cgrp;
}

void bpf_cgroup_release(struct cgroup *cgrp)
{
	(void)cgrp;
}

void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
}

void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->cpu;
}

void scx_bpf_error(const char *format, ...)
{
	va_list args;

	if (machine_in_use->error[0])
		return;
	va_start(args, format);
	vsnprintf(machine_in_use->error, sizeof(machine_in_use->error), format, args);
	va_end(args);
}

void scx_bpf_dump(const char *format, ...)
{
	(void)format;
}

/* Claims an idle CPU: the caller will wake it. */
static bool claim_idle(struct machine *m, s32 cpu)
{
	if (!cpumask_has(&m->idle_mask, cpu))
		return false;
	cpumask_set(&m->idle_mask, cpu, false);
	return true;
}

static bool core_idles(struct machine *m, s32 cpu)
{
	return cpumask_has(&m->idle_mask, cpu) && cpumask_has(&m->idle_mask, cpu ^ 1);
}

/* Claims a CPU of @allowed and of @llc (-1: any), if possible on a core that idles as a whole.
 * The kernel takes turns among equals. A replay knows whose turn it was: @hint's, if not -1. */
static s32 pick_idle(struct machine *m, const struct cpumask *allowed, s32 llc, s32 hint)
{
	if (hint >= 0 && cpumask_has(allowed, hint) &&
	    (llc < 0 || (s32)m->llc_of_cpu[hint] == llc) && claim_idle(m, hint))
		return hint;
	for (s32 whole = m->smt; whole >= 0; whole--) {
		for (s32 cpu = 0; cpu < (s32)m->nr_cpus; cpu++) {
			if (!cpumask_has(allowed, cpu) || (whole && !core_idles(m, cpu)) ||
			    (llc >= 0 && (s32)m->llc_of_cpu[cpu] != llc))
				continue;
			if (claim_idle(m, cpu))
				return cpu;
		}
	}
	return -EBUSY;
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	s32 hint = (s32)strand_wait(STRAND_IDLE, 0, (u64)-1);

	(void)flags;
	return pick_idle(machine_in_use, allowed, -1, hint);
}

/* The waker is about to block on a CPU that nothing else waits for. */
static s32 sync_cpu(struct machine *m, struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = m->this_cpu;

	if (m->llc_of_cpu[cpu] == m->llc_of_cpu[prev_cpu] && cpumask_has(p->cpus_ptr, prev_cpu) &&
	    claim_idle(m, prev_cpu))
		return prev_cpu;
	for (u32 i = 0; i < sizeof(m->idle_mask.bits) / sizeof(m->idle_mask.bits[0]); i++)
		if (m->idle_mask.bits[i] && !m->rqs[cpu].local.nr && cpumask_has(p->cpus_ptr, cpu))
			return cpu;
	return -EBUSY;
}

/* scx_select_cpu_dfl(): the previous CPU, one of its LLC, any. */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	s32 hint = (s32)strand_wait(STRAND_IDLE, 0, (u64)-1), cpu;
	struct machine *m = machine_in_use;

	*is_idle = true;
	if (wake_flags & SCX_WAKE_SYNC) {
		cpu = sync_cpu(m, p, prev_cpu);
		if (cpu >= 0)
			return cpu;
	}
	if (cpumask_has(p->cpus_ptr, prev_cpu) && (!m->smt || core_idles(m, prev_cpu)) &&
	    claim_idle(m, prev_cpu))
		return prev_cpu;
	cpu = pick_idle(m, p->cpus_ptr, (s32)m->llc_of_cpu[prev_cpu], hint);
	if (cpu < 0)
		cpu = pick_idle(m, p->cpus_ptr, -1, hint);
	if (cpu >= 0)
		return cpu;
	*is_idle = false;
	return prev_cpu;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	struct machine *m = machine_in_use;
	struct cpu_rq *rq = &m->rqs[cpu];

	if (flags & SCX_KICK_IDLE) {
		rq->resched |= rq->idle;
		return;
	}
	if (m->kicks_wait) {
		if (flags & SCX_KICK_PREEMPT)
			cpumask_set(&m->rqs[m->this_cpu].kicks, cpu, true);
		return;
	}
	if ((flags & SCX_KICK_PREEMPT) && rq->curr)
		rq->curr->scx.slice = 0;
	rq->resched = true;
}

u32 scx_bpf_reenqueue_local(void)
{
	return reenqueue_local(machine_in_use, machine_in_use->this_cpu);
}
