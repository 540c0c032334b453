/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory traffic of devices, charged to the task that submitted the request, or dirtied
 * the pages that a kernel thread writes out (dirtier.bpf.h). The task is usually blocked
 * meanwhile, so its blocked packet pays for it (4.5).
 */
#ifndef DRFQ_DMA_BPF_H
#define DRFQ_DMA_BPF_H

#include "payer.bpf.h"
#include "dirtier.bpf.h"
#include "relay.bpf.h"

/* Returns how many requests @bytes count for: 1; -1 if a request of so many was refused. */
static __always_inline s64 dma_requests(s64 bytes)
{
	return bytes < 0 ? -1 : 1;
}

/* Charges @bytes of DMA traffic, which @p asks for. Less than 0, here and below: they were charged,
 * and a device refused them. */
static void dma_charge(struct task_struct *p, s64 bytes)
{
	if (payer_charge_mover(p, bytes)) {
		count_shared(DRFQ_EV_DMA_CHARGED, dma_requests(bytes));
		return;
	}
	count_shared(DRFQ_EV_DMA_UNATTRIBUTED, dma_requests(bytes));
	count_shared(DRFQ_EV_DMA_UNATTRIBUTED_BYTES, bytes);
}

/* Returns whether @bio writes data. */
static __always_inline bool dma_writes(const struct bio *bio)
{
	u32 op = bio->bi_opf & 0xff;

	return op == REQ_OP_WRITE || op == REQ_OP_ZONE_APPEND;
}

/* Charges the @bytes of @bio, which a kernel thread submits for @payer. */
static void dma_charge_payer(const struct payer *payer, const struct bio *bio, s64 bytes)
{
	if (!payer_charge(payer, bytes)) {
		count_shared(DRFQ_EV_DMA_ENDED_BYTES, bytes);
		return;
	}
	count_shared(DRFQ_EV_DMA_CHARGED, dma_requests(bytes));
	if (dma_writes(bio))
		count_shared(DRFQ_EV_DMA_WRITTEN_BACK_BYTES, bytes);
}

/* Returns whether @bio has data. */
static __always_inline bool dma_has_data(const struct bio *bio)
{
	return (bio->bi_opf & 0xff) == REQ_OP_READ || dma_writes(bio);
}

/* Returns whether the device of @bio is stacked on others (dm, md). */
static __always_inline bool dma_is_stacked(const struct bio *bio)
{
	return bio->bi_bdev->bd_disk->fops->submit_bio;
}

/*
 * Returns who pays for @bio, which the kernel thread @p submits; NULL: not known. It passes on
 * what a stacked device got, or it writes out pages that other tasks dirtied; the dirtier of
 * the first one then pays. A loop device passes pages on, too, as requests of its own; who
 * wrote to it has paid.
 */
static __always_inline struct payer *dma_payer(const struct task_struct *p, const struct bio *bio)
{
	struct payer *payer;

	if (p->flags & PF_LOCAL_THROTTLE)
		return NULL;
	payer = relay_of(bio);
	if (payer)
		return payer->pid ? payer : NULL;
	return dma_writes(bio) ? dirtier_of(bio) : NULL;
}

/* Charges the @bytes of @bio to the current task @p, which submits it, or to the one that it
 * submits it for. */
static __always_inline void dma_charge_bio(struct task_struct *p, const struct bio *bio, s64 bytes)
{
	struct drfq_cpu *slot = own_slot();
	struct payer *payer = NULL;

	/* Most requests take this way. It needs no account. */
	if (bytes > 0 && slot_runs(slot, p) && !(p->flags & (PF_KTHREAD | PF_IO_WORKER))) {
		__sync_fetch_and_add(&slot->dma_pending_bytes, bytes);
		__sync_fetch_and_add(&slot->dma_pending_requests, 1);
		return;
	}
	count_shared(DRFQ_EV_DMA_BYTES, bytes);
	if (task_is_kthread(p))
		payer = dma_payer(p, bio);
	if (payer)
		dma_charge_payer(payer, bio, bytes);
	else
		dma_charge(p, bytes);
}

/*
 * A stacked device gets @bio, or a limit delays it. A kernel thread may pass it on. What a
 * kernel thread writes has a dirtier, or comes from another stacked device. What the scheduler
 * knows of the vector may be of an earlier request. What a loop device writes has been paid for
 * (dma_payer), so its entry names no task.
 */
static void dma_relay(const struct bio *bio)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct payer payer = {}, *known = &payer;

	if (!task_is_kthread(p)) {
		payer_set(&payer, p);
	} else if (!(p->flags & PF_LOCAL_THROTTLE)) {
		known = dma_writes(bio) ? dirtier_of(bio) : NULL;
		if (!known)
			known = dma_payer(p, bio);
	}
	relay_keep(bio, known);
}

/*
 * A block request is queued; the current task submits it. A stacked device queues the same
 * bytes again, in a new request for the device below, or remaps the request
 * (drfq_bio_remap). The one below is charged.
 */
static __always_inline void dma_queued(const struct bio *bio, bool second)
{
	struct task_struct *p;

	if (!dma_has_data(bio))
		return;
	p = bpf_get_current_task_btf();
	if (twice_handled(p, twice_mark(TWICE_QUEUE, bio, bio->bi_iter.bi_sector), second))
		return;
	if (dma_is_stacked(bio))
		dma_relay(bio);
	else
		dma_charge_bio(p, bio, bio->bi_iter.bi_size);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(drfq_bio_queue, struct bio *bio)
{
	dma_queued(bio, false);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(drfq_bio_queue2, struct bio *bio)
{
	dma_queued(bio, true);
	return 0;
}

/*
 * A request goes to another device. The kernel traces the queueing of a request once,
 * and then sets a flag. So a request with the flag, which a stacked device sends to the
 * one below (md raid0, NVMe multipath), is charged here. A partition is no such device:
 * its requests are remapped from the partition itself.
 */
static __always_inline void dma_remapped(const struct bio *bio, u32 from, bool second)
{
	struct task_struct *p;

	if (!(bio->bi_flags & bio_traced_flag) || bio->bi_bdev->bd_dev == from)
		return;
	if (!dma_has_data(bio) || dma_is_stacked(bio))
		return;
	p = bpf_get_current_task_btf();
	if (!twice_handled(p, twice_mark(TWICE_REMAP, bio, bio->bi_iter.bi_sector), second))
		dma_charge_bio(p, bio, bio->bi_iter.bi_size);
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(drfq_bio_remap, struct bio *bio, u32 from)
{
	dma_remapped(bio, from, false);
	return 0;
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(drfq_bio_remap2, struct bio *bio, u32 from)
{
	dma_remapped(bio, from, true);
	return 0;
}

/* How a request ends that may not wait (REQ_NOWAIT), and would have to (linux/blk_types.h). */
#define BLK_STS_AGAIN 12

/*
 * @bio ends in the task that submitted it, before a device saw it: the kernel traces this event
 * for no request that a device has answered. One that may not wait, and would have to, comes again,
 * often from a worker of io_uring. So it is not charged; where a tick has charged it already, the
 * task's next requests are not.
 */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(drfq_bio_end, struct request_queue *q, struct bio *bio)
{
	struct task_struct *p;
	struct task_ctx *t;

	if (bio->bi_status != BLK_STS_AGAIN || !dma_has_data(bio) || dma_is_stacked(bio))
		return 0;
	p = bpf_get_current_task_btf();
	t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	/* It is counted before it is refused. */
	if (t && slot_runs(own_slot(), p))
		task_take_over_dma(own_slot(), t);
	dma_charge_bio(p, bio, -(s64)bio->bi_iter.bi_size);
	return 0;
}

/*
 * A limit of a cgroup (io.max) may delay @bio. A worker of the kernel submits it later, and only
 * then its queueing is traced. So who pays is kept with its vector, as for a stacked device. The
 * kernel calls this function only where the group has a limit. Once the function has returned,
 * the request may have ended, and its memory have another use.
 */
SEC("fentry/__blk_throtl_bio")
int BPF_PROG(drfq_bio_limit, struct bio *bio)
{
	if (dma_has_data(bio))
		dma_relay(bio);
	return 0;
}

/*
 * Programs that speak the device's own language (SCSI ioctl, NVMe passthrough) make requests
 * without queueing a bio. The current task asks for @rq.
 */
static __always_inline void dma_passed_through(const struct request *rq, bool second)
{
	u32 op = rq->cmd_flags & 0xff;
	struct task_struct *p;

	if ((op != REQ_OP_DRV_IN && op != REQ_OP_DRV_OUT) || !rq->__data_len)
		return;
	p = bpf_get_current_task_btf();
	if (twice_handled(p, twice_mark(TWICE_PASS_THROUGH, rq, 0), second))
		return;
	count_shared(DRFQ_EV_DMA_BYTES, rq->__data_len);
	dma_charge(p, rq->__data_len);
}

/* Drivers begin such requests by two functions, which begin no others. */
SEC("fentry/blk_execute_rq")
int BPF_PROG(drfq_rq_execute, struct request *rq)
{
	dma_passed_through(rq, false);
	return 0;
}

SEC("fentry/blk_execute_rq")
int BPF_PROG(drfq_rq_execute2, struct request *rq)
{
	dma_passed_through(rq, true);
	return 0;
}

SEC("fentry/blk_execute_rq_nowait")
int BPF_PROG(drfq_rq_nowait, struct request *rq)
{
	dma_passed_through(rq, false);
	return 0;
}

SEC("fentry/blk_execute_rq_nowait")
int BPF_PROG(drfq_rq_nowait2, struct request *rq)
{
	dma_passed_through(rq, true);
	return 0;
}

/*
 * Where BPF follows no functions: a request is handed to the driver of its device. Each request
 * comes here. One that the driver could not take at once may come by another task, which is
 * charged.
 */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(drfq_rq_issue, struct request *rq)
{
	dma_passed_through(rq, false);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(drfq_rq_issue2, struct request *rq)
{
	dma_passed_through(rq, true);
	return 0;
}

/*
 * Charges traffic that the kernel does not report. Its sources are a memory
 * controller, a user-space driver, and `scx_drfq charge-traffic`.
 */
SEC("syscall")
int drfq_charge_mem(struct drfq_traffic_arg *arg)
{
	struct task_struct *p;
	struct task_ctx *t;

	if ((s64)arg->bytes < 0)
		return -EINVAL;
	p = bpf_task_from_pid(arg->pid);
	if (!p)
		return -ESRCH;
	if (!arg->moved_by_cpu) {
		dma_charge(p, arg->bytes);
	} else {
		t = bpf_task_storage_get(&task_ctxs, p, 0, 0);
		if (t)
			__sync_fetch_and_add(&t->mc_pending_bytes, arg->bytes);
	}
	bpf_task_release(p);
	return 0;
}

#endif /* DRFQ_DMA_BPF_H */
