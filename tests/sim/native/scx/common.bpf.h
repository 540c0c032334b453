/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands for scx/common.bpf.h when bpf/ is compiled natively: the part of
 * vmlinux.h, of the BPF helpers and of the sched_ext kfuncs that bpf/ uses.
 * kernel.c implements the functions. Names and semantics are the kernel's
 * (kernel/sched/ext.c, include/linux/sched/ext.h).
 */
#ifndef DRFQ_NATIVE_COMMON_H
#define DRFQ_NATIVE_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define __VMLINUX_H__
typedef uint64_t u64;
typedef int64_t s64;
typedef uint8_t u8;
typedef uint32_t u32;
typedef int32_t s32;

/* ── vmlinux.h ─────────────────────────────────────────────────────────── */

#define PF_EXITING 0x00000004
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000

enum {
	SCX_DSQ_INVALID = 0,
	SCX_TASK_QUEUED = 1 << 0,
	SCX_ENQ_WAKEUP = 1 << 0,
	SCX_ENQ_HEAD = 1 << 4,
	SCX_ENQ_LAST = 1 << 9,
	SCX_ENQ_CPU_SELECTED = 1 << 10,
	SCX_WAKE_FORK = 1 << 2,
	SCX_WAKE_TTWU = 1 << 3,
	SCX_WAKE_SYNC = 1 << 4,
	SCX_KICK_IDLE = 1 << 0,
	SCX_KICK_PREEMPT = 1 << 1,
	SCX_OPS_KEEP_BUILTIN_IDLE = 1 << 0,
	SCX_OPS_ENQ_LAST = 1 << 1,
	SCX_OPS_ENQ_EXITING = 1 << 2,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1 << 5,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,
	BPF_SK_STORAGE_GET_F_CREATE = 1 << 0,
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_ZONE_APPEND = 7,
	REQ_OP_DRV_IN = 34,
	REQ_OP_DRV_OUT = 35,
	SKB_GSO_TCPV4 = 1 << 0,
	SKB_GSO_TCPV6 = 1 << 4,
	SKB_GSO_UDP_L4 = 1 << 17,
};

#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_DSQ_PRIQ (1ULL << 57)
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)
/* With the number of a CPU: that CPU's. */
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ULL
#define SCX_SLICE_DFL (20ULL * 1000 * 1000)

#define NATIVE_MAX_CPUS 1024

struct cpumask {
	u64 bits[NATIVE_MAX_CPUS / 64];
};

struct task_struct;

struct list_head {
	struct list_head *next, *prev;
};

/* The kernel's run queue; model.h has what the model keeps of a CPU beside it. */
struct rq {
	struct {
		struct list_head runnable_list;
	} scx;
};
extern struct rq runqueues;

/* A dispatch queue: in order of scx.dsq_vtime, or first in first out (the kernel's
 * struct scx_dispatch_q). */
struct dsq {
	u64 id;
	struct task_struct *first, *last;
	u32 nr;
	u64 seq;
	/* The CPU of a local DSQ; -1 for one that the scheduler made. */
	s32 cpu;
};

struct sched_ext_entity {
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
	struct list_head runnable_node;
	u64 runnable_at; /* jiffies */
	/* SCX_TASK_RESET_RUNNABLE_AT: the next wait is a new one. */
	bool reset_runnable_at;
	/* Where ops.select_cpu or ops.enqueue asked to put the task. */
	u64 ddsp_dsq_id;
	u64 ddsp_enq_flags;
	/* The DSQ that the task is on. */
	struct dsq *dsq;
	struct task_struct *dsq_next, *dsq_prev;
	u64 dsq_seq;
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 exec_start;
};

struct sched_info {
	u64 run_delay, last_queued, pcount;
};

struct signal_struct {
	u32 flags;
};

struct cgroup {
	s32 level;
	struct cgroup *parent;
	void *storage;
	/* What its files say (us; quota_us as the kernel tells it). */
	u32 weight;
	u64 period_us, quota_us;
};

struct io_wq {
	struct task_struct *task;
};

struct io_worker {
	struct io_wq *wq;
};

struct task_struct {
	s32 pid, tgid;
	/* The weight that a test gave it in place of a nice value; 0: none did. */
	u32 weight;
	u32 flags;
	u32 policy;
	s32 exit_state;
	s32 prio, static_prio;
	u32 __state;
	s32 nr_cpus_allowed;
	s32 rcu_read_lock_nesting;
	u32 migration_disabled;
	struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_struct *real_parent, *group_leader;
	struct signal_struct *signal;
	u64 start_time;
	void *worker_private;
	char comm[16];
	/* The model's own. */
	struct cpumask cpus_mask, cpus_in_effect;
	struct signal_struct own_signal;
	struct io_wq own_wq;
	struct io_worker own_worker;
	struct cgroup *cgroup;
	s32 cpu;
	bool migrating; /* task_on_rq_migrating() */
	void *storage;
};

struct block_device_operations {
	void *submit_bio;
};
struct gendisk {
	const struct block_device_operations *fops;
};
struct block_device {
	struct gendisk *bd_disk;
	u32 bd_dev;
};
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
	u32 bi_idx;
};
struct inode {
	unsigned short i_mode;
};
struct address_space {
	struct inode *host;
};
/* compound_info: see dirtier_head(); what follows it, a tail page lacks. */
struct page {
	unsigned long compound_info;
	struct address_space *mapping;
	unsigned long index;
	unsigned long private;
};
struct folio {
	unsigned long compound_info;
	struct address_space *mapping;
	unsigned long index;
};
struct bio_vec {
	struct page *bv_page;
};
/* BIO_TRACE_COMPLETION, as a bit. */
#define NATIVE_BIO_TRACED (1 << 6)

struct request_queue;

struct bio {
	u32 bi_opf;
	unsigned short bi_flags;
	unsigned char bi_status;
	struct block_device *bi_bdev;
	struct bio_vec *bi_io_vec;
	void *bi_private;
	struct bvec_iter bi_iter;
};

struct request {
	u32 cmd_flags;
	u32 __data_len;
};

struct device {
	struct device *parent;
};
enum netdev_priv_flags {
	IFF_802_1Q_VLAN = 1,
	IFF_BONDING = 4,
	IFF_MACVLAN = 65536,
	IFF_L3MDEV_MASTER = 262144,
	IFF_TEAM = 4194304,
};
struct net_device {
	u32 priv_flags;
	struct device dev;
};
struct sock {
	struct {
		unsigned char skc_state;
		unsigned short skc_family;
	} __sk_common;
	unsigned char sk_kern_sock;
	/* The model's own. */
	void *storage;
};
struct socket {
	struct sock *sk;
};
struct skb_shared_info {
	unsigned short gso_segs;
	u32 gso_type;
};
struct udphdr {
	unsigned short source, dest, len, check;
};
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u32 len;
	u32 end;
	unsigned short transport_header, network_header, mac_header;
	unsigned char pkt_type;
	unsigned char *head, *data;
};

struct scx_init_task_args {
	bool fork;
};
struct scx_exit_task_args {
	bool cancelled;
};
struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us, bw_quota_us, bw_burst_us;
	bool sched_idle;
};
struct scx_cpu_release_args;
struct scx_exit_info;
struct scx_dump_ctx;
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct bpf_timer {
	int (*callback)(void *map, int *key, struct bpf_timer *timer);
};
struct bpf_perf_event_value {
	u64 counter, enabled, running;
};
struct user_exit_info {
	int kind;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, void *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	const char *name;
};

/* ── BPF's language ────────────────────────────────────────────────────── */

#define SEC(name)
#define __ksym
#define __weak
#define bpf_ksym_exists(symbol) (1)
#define bpf_core_cast(ptr, type) ((type *)(ptr))
#define BPF_CORE_READ_BITFIELD(at, field) ((at)->field)
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_field_offset(type, field) offsetof(type, field)
#define bpf_core_type_size(type) sizeof(type)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __arg_nonnull
#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)
#define bpf_core_field_exists(field) ((void)sizeof(field), 1)
#define preserve_access_index
#define BPF_STRUCT_OPS(name, args...) name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)
#define BPF_PROG(name, args...) name(args)
#define SCX_OPS_DEFINE(ops_name, ...) struct sched_ext_ops ops_name = {__VA_ARGS__}
#define UEI_DEFINE(name) struct user_exit_info name
#define UEI_RECORD(name, info) ((void)(info))

/* ── Maps ──────────────────────────────────────────────────────────────── */

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
	BPF_F_NO_PREALLOC = 1,
	BPF_ANY = 0,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL

void *native_array_at(void *map, u32 key, size_t value_bytes, u32 max_entries);
void *native_storage(void **storage, size_t value_bytes, u64 flags);
/* A map whose keys are larger than a u32 is a hash. */
void *native_hash_at(void *map, const void *key, size_t key_bytes);
void native_hash_update(void *map, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes);
void native_hash_delete(void *map, const void *key, size_t key_bytes);
#define native_map_entries(map) (sizeof(*(map)->max_entries) / sizeof(int))
#define bpf_map_lookup_elem(map, at)                                                               \
	((typeof((map)->value))(sizeof(*(at)) == sizeof(u32)                                       \
					? native_array_at(map, *(const u32 *)(at),                 \
							  sizeof(*(map)->value),                   \
							  native_map_entries(map))                 \
					: native_hash_at(map, at, sizeof(*(at)))))
#define bpf_map_update_elem(map, at, to, flags)                                                    \
	native_hash_update(map, at, sizeof(*(at)), to, sizeof(*(to)))
#define bpf_map_delete_elem(map, at) native_hash_delete(map, at, sizeof(*(at)))
#define bpf_task_storage_get(map, p, init, get_flags)                                              \
	((typeof((map)->value))native_storage(&(p)->storage, sizeof(*(map)->value), get_flags))
#define bpf_cgrp_storage_get(map, c, init, get_flags)                                              \
	((typeof((map)->value))native_storage(&(c)->storage, sizeof(*(map)->value), get_flags))
#define bpf_sk_storage_get(map, sk, init, get_flags)                                               \
	((typeof((map)->value))native_storage(&(sk)->storage, sizeof(*(map)->value), get_flags))
long native_perf_read(bool second, struct bpf_perf_event_value *value);
#define bpf_perf_event_read_value(map, cpu_flags, value, bytes)                                    \
	native_perf_read((map) == (void *)&pmu_second, value)

static inline void bpf_rcu_read_lock(void)
{
}

static inline void bpf_rcu_read_unlock(void)
{
}

/* ── Helpers and kfuncs ────────────────────────────────────────────────── */

u64 scx_bpf_now(void);
u64 bpf_ktime_get_ns(void);
u64 bpf_jiffies64(void);
u32 bpf_get_prandom_u32(void);
s32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);
u64 bpf_get_current_pid_tgid(void);
struct task_struct *bpf_task_from_pid(s32 pid);
struct task_struct *bpf_task_from_vpid(s32 vpid);
void bpf_task_release(struct task_struct *p);
void *bpf_per_cpu_ptr(const struct rq *rqs, u32 cpu);
const void *bpf_this_cpu_ptr(const int *counts);
long bpf_timer_init(struct bpf_timer *timer, void *map, u64 clock);
long native_timer_set_callback(struct bpf_timer *timer, void *callback);
#define bpf_timer_set_callback(timer, callback) native_timer_set_callback(timer, (void *)(callback))
long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
long bpf_probe_read_kernel(void *to, u32 bytes, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 bytes, const void *from);
long bpf_seq_write(struct seq_file *seq, const void *data, u32 bytes);
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
u32 bpf_cpumask_first(const struct cpumask *mask);
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p);
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, s32 level);
struct cgroup *bpf_cgroup_from_id(u64 id);
void bpf_cgroup_release(struct cgroup *cgrp);

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);
s32 scx_bpf_dsq_nr_queued(u64 dsq_id);
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
			      u64 enq_flags);
bool scx_bpf_dsq_move_to_local(u64 dsq_id, u64 enq_flags);
void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);
void scx_bpf_task_set_slice(struct task_struct *p, u64 slice);
s32 scx_bpf_task_cpu(const struct task_struct *p);
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
u32 scx_bpf_reenqueue_local(void);
void scx_bpf_error(const char *format, ...);
/* Whoever calls the callback ends the scheduler, too (native/restart.c). */
#define scx_bpf_exit(code, format, ...) ((void)(code))
#define SCX_ECODE_RSN_HOTPLUG (1LL << 32)
#define SCX_ECODE_ACT_RESTART (1LL << 48)
void scx_bpf_dump(const char *format, ...);

struct bpf_iter_scx_dsq {
	struct dsq *dsq;
	struct task_struct *next;
	u64 last_seq;
	/* The key of the last task that it visited. */
	u64 at_vtime;
	u64 vtime;
	bool vtime_set;
	u64 slice;
	bool slice_set;
};

void native_iter_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id);
struct task_struct *native_iter_dsq_next(struct bpf_iter_scx_dsq *it);
#define bpf_for_each(type, cur, dsq_id, iter_flags)                                                \
	for (struct bpf_iter_scx_dsq ___it,                                                        \
	     *___once = (native_iter_dsq_new(&___it, dsq_id), &___it);                             \
	     ___once && ((cur) = native_iter_dsq_next(&___it));)
#define BPF_FOR_EACH_ITER (&___it)
void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
		      u64 enq_flags);
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags);
struct task_struct *native_dsq_peek(u64 dsq_id);

#endif /* DRFQ_NATIVE_COMMON_H */
