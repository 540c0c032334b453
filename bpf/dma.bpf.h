/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory traffic of devices, charged to the task that submitted the request, or dirtied
 * the pages that a kernel thread writes out (dirtier.bpf.h). The task is usually blocked
 * meanwhile, so its blocked packet pays for it (4.5).
 */
#ifndef DRFQ_DMA_BPF_H
#define DRFQ_DMA_BPF_H

/* Charges @bytes of DMA traffic to @p. */
static void dma_charge(struct task_struct *p, u64 bytes)
{
	if (payer_charge_task(p, bytes)) {
		count(DRFQ_EV_DMA_CHARGED);
		return;
	}
	count(DRFQ_EV_DMA_UNATTRIBUTED);
	count_many(DRFQ_EV_DMA_UNATTRIBUTED_BYTES, bytes);
}

/* Charges @bytes to the task that dirtied them. */
static void dma_charge_dirtier(const struct payer *dirtier, u64 bytes)
{
	if (payer_charge(dirtier, bytes)) {
		count(DRFQ_EV_DMA_CHARGED);
		count_many(DRFQ_EV_DMA_WRITTEN_BACK_BYTES, bytes);
	} else {
		count_many(DRFQ_EV_DMA_ENDED_BYTES, bytes);
	}
}

/* Returns whether @bio moves data to or from a device that is not stacked on others. */
static __always_inline bool dma_moves_data(const struct bio *bio)
{
	u32 op = bio->bi_opf & 0xff;

	return (op == REQ_OP_READ || op == REQ_OP_WRITE) &&
	       !bio->bi_bdev->bd_disk->fops->submit_bio;
}

/*
 * Charges @bio to the current task, which submits it. A kernel thread writes out pages that
 * other tasks dirtied. The dirtier of the first one then pays for the request. A loop device
 * passes such pages on from a kernel thread of its own; who wrote to it has paid.
 */
static void dma_charge_bio(const struct bio *bio)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u64 bytes = bio->bi_iter.bi_size;
	struct payer *d = NULL;

	if (task_is_kthread(p) && !(p->flags & PF_LOCAL_THROTTLE) &&
	    (bio->bi_opf & 0xff) == REQ_OP_WRITE)
		d = dirtier_of(bio);
	if (d)
		dma_charge_dirtier(d, bytes);
	else
		dma_charge(p, bytes);
}

/*
 * A block request is queued; the current task submits it. Stacked devices (dm, md) are
 * skipped. Most of them queue the same bytes again, in a new request for the device
 * below. The others remap the request (drfq_bio_remap).
 */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(drfq_bio_queue, struct bio *bio)
{
	if (dma_moves_data(bio))
		dma_charge_bio(bio);
	return 0;
}

/*
 * A request goes to another device. The kernel traces the queueing of a request once,
 * and then sets a flag. So a request with the flag, which a stacked device sends to the
 * one below (md raid0, NVMe multipath), is charged here. A partition is no such device:
 * its requests are remapped from the partition itself.
 */
SEC("tp_btf/block_bio_remap")
int BPF_PROG(drfq_bio_remap, struct bio *bio, u32 from)
{
	if (!(bio->bi_flags & bio_traced_flag) || bio->bi_bdev->bd_dev == from)
		return 0;
	if (dma_moves_data(bio))
		dma_charge_bio(bio);
	return 0;
}

/*
 * A request is handed to the driver of its device. Programs that speak the device's own
 * language (SCSI ioctl, NVMe passthrough) make requests without queueing a bio, so they are
 * charged here. Their submitter hands them over itself; where another task does it, that
 * one is charged.
 */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(drfq_rq_issue, struct request *rq)
{
	u32 op = rq->cmd_flags & 0xff;

	if ((op == REQ_OP_DRV_IN || op == REQ_OP_DRV_OUT) && rq->__data_len)
		dma_charge(bpf_get_current_task_btf(), rq->__data_len);
	return 0;
}

/*
 * Charges traffic that the kernel does not report. Its sources are a memory
 * controller, a user-space driver, and `scx_drfq charge-traffic`.
 */
SEC("syscall")
int drfq_charge_mem(struct drfq_traffic_arg *arg)
{
	struct task_struct *p = bpf_task_from_pid(arg->pid);
	struct task_ctx *t;

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
