/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests to block devices, and dirty pages that are written out. */
#include <stdlib.h>
#include <sys/stat.h>

#include "model.h"

static void submit_stacked(const void *bio)
{
	(void)bio;
}

static void issue(u32 op, u32 bytes)
{
	struct request rq = {.cmd_flags = op, .__data_len = bytes};

	scheduler_rq_issue(&rq);
}

/* submit_bio_noacct(), which stacked devices call again for the device below. */
void machine_submit(struct machine *m, s32 cpu, u32 bytes, u32 layers, bool in_place,
		    bool partition)
{
	static const struct block_device_operations plain, stacked = {.submit_bio = submit_stacked};
	enum { UPPER = 100 };
	static u64 next_sector;
	unsigned short flags = 0;

	machine_use(m, m->now_ns, cpu);
	next_sector++;
	for (s32 layer = (s32)layers; layer >= 0; layer--) {
		struct gendisk disk = {.fops = layer ? &stacked : &plain};
		struct block_device device = {.bd_disk = &disk, .bd_dev = UPPER + (u32)layer};
		struct bio bio = {.bi_bdev = &device, .bi_flags = flags};

		bio.bi_iter.bi_size = bytes;
		bio.bi_iter.bi_sector = next_sector;
		/* The layer above has mapped the request to this device. */
		if (layer < (s32)layers)
			scheduler_bio_remap(&bio, UPPER + (u32)layer + 1);
		if (partition && !layer)
			scheduler_bio_remap(&bio, device.bd_dev);
		if (!(flags & NATIVE_BIO_TRACED))
			scheduler_bio_queue(&bio);
		flags = in_place ? NATIVE_BIO_TRACED : 0;
		if (!layer)
			issue(REQ_OP_READ, bytes);
	}
}

/* BLK_STS_AGAIN */
#define STATUS_AGAIN 12

void machine_refuse(struct machine *m, s32 cpu, u32 bytes)
{
	static const struct block_device_operations plain;
	struct gendisk disk = {.fops = &plain};
	struct block_device device = {.bd_disk = &disk};
	struct bio bio = {.bi_bdev = &device, .bi_status = STATUS_AGAIN};

	machine_use(m, m->now_ns, cpu);
	bio.bi_iter.bi_size = bytes;
	scheduler_bio_end(&bio);
}

void machine_split(struct machine *m, s32 cpu, u32 bytes, u32 parts)
{
	static const struct block_device_operations plain, stacked = {.submit_bio = submit_stacked};
	struct gendisk upper_disk = {.fops = &stacked}, lower_disk = {.fops = &plain};
	struct block_device upper = {.bd_disk = &upper_disk, .bd_dev = 1};
	struct block_device lower = {.bd_disk = &lower_disk, .bd_dev = 2};
	struct bio rest = {.bi_bdev = &upper};

	machine_use(m, m->now_ns, cpu);
	rest.bi_iter.bi_size = bytes;
	scheduler_bio_queue(&rest);
	for (u32 part = 0; part < parts; part++) {
		struct bio bio = {.bi_bdev = &lower, .bi_flags = NATIVE_BIO_TRACED};

		/* bio_split() cuts off the first part. The rest comes again, and is not traced. */
		bio.bi_iter.bi_size = part + 1 < parts ? bytes / parts : rest.bi_iter.bi_size;
		rest.bi_iter.bi_size -= bio.bi_iter.bi_size;
		scheduler_bio_remap(&bio, upper.bd_dev);
		issue(REQ_OP_READ, bio.bi_iter.bi_size);
	}
}

void machine_pass_through(struct machine *m, s32 cpu, u32 bytes, enum pass_through told)
{
	struct request rq = {.cmd_flags = REQ_OP_DRV_IN, .__data_len = bytes};

	machine_use(m, m->now_ns, cpu);
	if (told == NATIVE_ISSUED)
		issue(REQ_OP_DRV_IN, bytes);
	else
		scheduler_rq_execute(&rq, told == NATIVE_EXECUTED);
}

/* The inode and the page cache of each file. They hold nothing of a machine. */
static struct inode inodes[NATIVE_FILES];
static struct address_space mappings[NATIVE_FILES];

static struct address_space *mapping_of(const struct file_page *at)
{
	if (at->file >= NATIVE_FILES)
		abort();
	inodes[at->file].i_mode = at->block_device ? S_IFBLK : 0;
	mappings[at->file].host = &inodes[at->file];
	return &mappings[at->file];
}

void machine_join(struct task_struct *p, struct task_struct *leader)
{
	p->group_leader = leader;
	p->tgid = leader->pid;
}

void machine_serve_ring(struct task_struct *p, struct task_struct *submitter)
{
	enum { IO_WORKER = 1 << 4 };

	p->flags |= IO_WORKER;
	p->own_wq.task = submitter;
	p->own_worker.wq = &p->own_wq;
	p->worker_private = submitter ? &p->own_worker : NULL;
}

void machine_skip(struct machine *m, bool first, bool second)
{
	machine_use(m, m->now_ns, 0);
	scheduler_skip(first, second);
}

void machine_work(struct task_struct *p, bool local)
{
	enum { LOCAL_THROTTLE = 1 << 20 };

	p->flags = PF_KTHREAD | PF_WQ_WORKER | (local ? LOCAL_THROTTLE : 0);
}

void machine_reuse_id(struct task_struct *p)
{
	p->start_time++;
}

void machine_dirty(struct machine *m, const struct task_struct *p, const struct file_page *at)
{
	struct address_space *mapping = mapping_of(at);
	struct folio folio = {.mapping = mapping, .index = at->index};

	machine_use(m, m->now_ns, p->cpu);
	if (m->rqs[p->cpu].curr != p)
		abort();
	scheduler_dirty_folio(&folio, mapping);
}

/* Two pages of memory that are one folio. */
union folio_memory {
	struct page pages[2];
	struct folio folio;
};

/*
 * The memory of requests that stacked devices pass on. A vector and its page come together
 * again after so many requests that no simulation has.
 */
enum { VECTORS = 8, FOLIOS = 61 };
static struct bio_vec vectors[VECTORS], copy_vectors[VECTORS];
static struct page copies[FOLIOS];
static _Alignas(2 * sizeof(struct page)) union folio_memory folios[FOLIOS];
static u32 next_request;

/* Fills @memory, which is aligned to its size, as @at tells. Returns the page. */
static struct page *fill(union folio_memory *memory, const struct file_page *at)
{
	*memory = (union folio_memory){};
	if (!at->copied)
		memory->folio.mapping = mapping_of(at);
	memory->folio.index = at->index;
	if (at->tail == NATIVE_TAIL_BY_ADDRESS)
		memory->pages[1].compound_info = (unsigned long)&memory->pages[0] | 1;
	else
		memory->pages[1].compound_info = ~(sizeof(memory->pages) - 1) | 1;
	return &memory->pages[at->tail != NATIVE_HEAD];
}

/* @p, which runs, queues @bio. */
static void queue(struct machine *m, const struct task_struct *p, struct bio *bio)
{
	machine_use(m, m->now_ns, p->cpu);
	if (m->rqs[p->cpu].curr != p)
		abort();
	scheduler_bio_queue(bio);
}

static const struct block_device_operations stacked_ops = {.submit_bio = submit_stacked}, plain_ops;
static struct gendisk stacked_disk = {.fops = &stacked_ops}, plain_disk = {.fops = &plain_ops};
static struct block_device stacked_device = {.bd_disk = &stacked_disk};
static struct block_device plain_device = {.bd_disk = &plain_disk};

void machine_write_out(struct machine *m, const struct task_struct *p, const struct file_page *at,
		       u32 op, u32 bytes)
{
	_Alignas(2 * sizeof(struct page)) union folio_memory memory;
	/* Another request had the bytes before these. */
	struct bio_vec vecs[2] = {{}, {.bv_page = fill(&memory, at)}};
	struct bio bio = {.bi_opf = op, .bi_bdev = &plain_device, .bi_io_vec = vecs};

	bio.bi_iter.bi_size = bytes;
	bio.bi_iter.bi_idx = 1;
	queue(m, p, &bio);
}

void machine_delay(struct machine *m, const struct task_struct *p, const struct task_struct *thread,
		   const struct file_page *at, u32 op, u32 bytes, bool refused)
{
	u32 number = next_request++;
	struct bio_vec *vec = &vectors[number % VECTORS];
	struct bio bio = {.bi_opf = op, .bi_bdev = &plain_device, .bi_io_vec = vec};

	vec->bv_page = fill(&folios[number % FOLIOS], at);
	bio.bi_iter.bi_size = bytes;
	machine_use(m, m->now_ns, p->cpu);
	if (m->rqs[p->cpu].curr != p)
		abort();
	scheduler_bio_limit(&bio);
	queue(m, thread, &bio);
	bio.bi_status = STATUS_AGAIN;
	if (refused)
		scheduler_bio_end(&bio);
}

/* What raid5 has of a disk, for one stripe: the kernel's struct r5dev. */
struct r5dev {
	struct bio req, rreq;
	struct bio_vec vec, rvec;
	struct page *page, *orig_page;
	u32 offset;
	struct bio *toread, *read, *towrite, *written;
	u64 sector, flags;
	u32 log_checksum;
	unsigned short write_hint;
};

/* Makes @lower the request of a stripe for @disk, of which @upper asks the middle one. */
static struct bio *stripe_request(const struct bio *lower, struct bio *upper, enum stripe_disk disk)
{
	static struct {
		u64 sector;
		struct r5dev disks[3];
		/* What follows is read, too, and here no read may fail. */
		struct r5dev rest[16];
	} stripe;
	struct r5dev *middle = &stripe.disks[1];

	for (u32 i = 0; i < 3; i++) {
		stripe.disks[i].req = *lower;
		stripe.disks[i].req.bi_private = &stripe;
		stripe.disks[i].req.bi_io_vec = &stripe.disks[i].vec;
		stripe.disks[i].vec = *lower->bi_io_vec;
	}
	middle->toread = middle->towrite = middle->written = NULL;
	if (lower->bi_opf == REQ_OP_READ)
		middle->toread = upper;
	else if (disk == NATIVE_STRIPE_LAST)
		middle->towrite = upper;
	else
		middle->written = upper;
	return &stripe.disks[disk - NATIVE_STRIPE_FIRST].req;
}

void machine_pass_on(struct machine *m, const struct task_struct *p,
		     const struct task_struct *thread, const struct file_page *at,
		     const struct passing *passing)
{
	u32 number = next_request++;
	struct bio_vec *vec = &vectors[number % VECTORS], *copy = &copy_vectors[number % VECTORS];
	struct bio upper = {.bi_opf = passing->op, .bi_bdev = &stacked_device, .bi_io_vec = vec};
	struct bio lower = {.bi_opf = passing->op, .bi_bdev = &plain_device, .bi_io_vec = copy};
	struct bio other = {}, *lower_request = &lower;
	/* What dm-crypt's and raid1's data have in common: they begin with six words. */
	struct bio *data[6] = {&other, &other, &other, &other, &other, &other};

	vec->bv_page = fill(&folios[number % FOLIOS], at);
	copy->bv_page = &copies[number % FOLIOS];
	upper.bi_iter.bi_sector = 8 * (number + 1ULL);
	upper.bi_iter.bi_size = lower.bi_iter.bi_size = passing->bytes;
	queue(m, p, &upper);
	if (passing->clones && !passing->disk)
		lower.bi_io_vec = vec;
	if (passing->copies)
		data[1] = &upper;
	if (passing->behind) {
		data[5] = &upper;
		if (!passing->copies)
			data[1] = (struct bio *)(uintptr_t)upper.bi_iter.bi_sector;
	}
	lower.bi_private = data;
	if (passing->disk)
		lower_request = stripe_request(&lower, &upper, passing->disk);
	/* The memory of the vector has a new use meanwhile. */
	if (passing->reused)
		vec->bv_page = copy->bv_page;
	queue(m, thread, lower_request);
	if (!passing->twice)
		return;
	/* Another disk gets the same pages, when the upper request has ended. */
	upper = other;
	queue(m, thread, lower_request);
}
