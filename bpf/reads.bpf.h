/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads that the kernel counts itself. submit_bio() adds each one to the account of the current
 * task that /proc/PID/io shows (CONFIG_TASK_IO_ACCOUNTING). So what a task reads of a plain device
 * is charged by that account at its next tick or switch. To look up the task at each request would
 * cost more than all else that is done for it.
 */
#ifndef DRFQ_READS_BPF_H
#define DRFQ_READS_BPF_H

/* A flag of struct task_struct: the kernel runs the thread for io_uring. */
#define PF_IO_WORKER 0x00000010

/* Returns whether the kernel counts what @p reads, and @p pays for it. */
static __always_inline bool reads_are_counted(const struct task_struct *p)
{
	return bpf_core_field_exists(p->ioac.read_bytes) &&
	       !(p->flags & (PF_KTHREAD | PF_IO_WORKER));
}

/*
 * Returns whether the account tells of @bio, which the current task @p submits: it reads, and no
 * stacked device submits it again. A task of a higher class has no ticks and switches here.
 */
static __always_inline bool reads_tell_of(const struct task_struct *p, const struct bio *bio)
{
	return (bio->bi_opf & 0xff) == REQ_OP_READ && reads_are_counted(p) && !p->bio_list &&
	       !is_of_higher_class(p);
}

/* What @p has read up to now is not charged by its account. */
static __always_inline void reads_start(const struct task_struct *p, struct task_ctx *t)
{
	if (bpf_core_field_exists(p->ioac.read_bytes))
		t->reads_seen = p->ioac.read_bytes;
}

/* The current task @p has read. Its CPU takes that at the next tick or switch. */
static __always_inline void reads_note(void)
{
	WRITE_ONCE(cpu_slot(bpf_get_smp_processor_id())->has_read, 1);
}

/* Adds what @p has read since the last time to what devices have moved for it. A program that does
 * so for @p, too, may have been preempted; the one that comes first adds it. */
static __noinline void reads_take(const struct task_struct *p, struct task_ctx *t)
{
	u64 seen = READ_ONCE(t->reads_seen), counted;

	if (!reads_are_counted(p))
		return;
	counted = p->ioac.read_bytes;
	if ((s64)(counted - seen) <= 0 ||
	    __sync_val_compare_and_swap(&t->reads_seen, seen, counted) != seen)
		return;
	count_shared(DRFQ_EV_DMA_BYTES, counted - seen);
	count_shared(DRFQ_EV_DMA_CHARGED, 1);
	__sync_fetch_and_add(&t->dma_pending_bytes, counted - seen);
}

/* Does so if @p, which runs on @cpu, has read. */
static __always_inline void reads_check(const struct task_struct *p, struct task_ctx *t, s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	/* The task may be changed from another CPU, while a program takes what it has read. */
	if (!READ_ONCE(slot->has_read) || cpu != (s32)bpf_get_smp_processor_id())
		return;
	WRITE_ONCE(slot->has_read, 0);
	reads_take(p, t);
}

/*
 * @bytes that the current task @p reads are not charged by its account. What it has read before is.
 * The account tells of them if submit_bio() had them, not if a stacked device submits what it got.
 */
static __always_inline void reads_leave(const struct task_struct *p, struct task_ctx *t, u64 bytes)
{
	if (!reads_are_counted(p))
		return;
	if (is_of_higher_class(p)) {
		reads_start(p, t);
		return;
	}
	if ((s64)(p->ioac.read_bytes - READ_ONCE(t->reads_seen) - bytes) >= 0)
		__sync_fetch_and_add(&t->reads_seen, bytes);
	reads_take(p, t);
}

#endif /* DRFQ_READS_BPF_H */
