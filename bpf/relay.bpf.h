/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests that a stacked device passes on from a kernel thread (dm-crypt, raid1). The thread
 * makes requests of its own, of which no field tells who submitted the one above. But clones
 * of a request share its vector of pages. Requests with copies of the pages have private data
 * that lead to the request above, or to a clone of it. So each vector that reaches a stacked
 * device is kept with who pays for it.
 */
#ifndef DRFQ_RELAY_BPF_H
#define DRFQ_RELAY_BPF_H

/* Requests that the scheduler remembers, in some 2 MB. */
#define RELAYS 16384

struct relay {
	struct payer payer;
	/* The vector's first page. Another one means that the address has a new use. */
	u64 page;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RELAYS);
	__type(key, u64);
	__type(value, struct relay);
} relays SEC(".maps");

/* Returns the first page of the vector at @vec; 0: none. */
static __always_inline u64 relay_page(u64 vec)
{
	const struct bio_vec *first = (const struct bio_vec *)vec;
	u64 page = 0;

	if (bpf_probe_read_kernel(&page, sizeof(page), &first->bv_page))
		return 0;
	return page;
}

/* @bio, for which @payer pays (NULL: not known), reaches a stacked device. */
static __always_inline void relay_keep(const struct bio *bio, const struct payer *payer)
{
	u64 vec = (u64)bio->bi_io_vec;
	struct relay relay = {};

	if (!vec)
		return;
	if (!payer) {
		bpf_map_delete_elem(&relays, &vec);
		return;
	}
	relay.payer = *payer;
	relay.page = relay_page(vec);
	bpf_map_update_elem(&relays, &vec, &relay, BPF_ANY);
}

/* Returns who pays for the request whose vector is at @vec; NULL: not known. */
static __always_inline struct payer *relay_at(u64 vec)
{
	struct relay *relay = vec ? bpf_map_lookup_elem(&relays, &vec) : NULL;

	return relay && relay->page == relay_page(vec) ? &relay->payer : NULL;
}

/* Returns who pays for the request @upper, or that it is a clone of; NULL: not known. */
static __always_inline struct payer *relay_above(const struct bio *upper)
{
	struct bio_vec *vec;

	if (bpf_probe_read_kernel(&vec, sizeof(vec), &upper->bi_io_vec))
		return NULL;
	return relay_at((u64)vec);
}

/* What struct dm_crypt_io and struct r1bio begin with. Other drivers' data lead nowhere. */
struct relay_private {
	u64 word;
	union {
		struct bio *crypt_base;
		u64 raid1_sector;
	};
	u64 words[3];
	struct bio *raid1_master;
};

/*
 * @bio, with @data, may be one of the copies that raid1 makes where a disk writes behind the
 * others. All of them share a vector. The first one leads to the request above, so who pays for
 * that is kept with the vector. For the next ones the request above may have ended, and its memory
 * may have a new use, in which it hardly is at the same sector.
 */
static __always_inline void relay_keep_copy(const struct bio *bio, const struct relay_private *data)
{
	const struct bio *master = data->raid1_master;
	struct payer *payer;
	struct bio_vec *vec;
	u64 sector;

	if (bpf_probe_read_kernel(&sector, sizeof(sector), &master->bi_iter.bi_sector) ||
	    sector != data->raid1_sector ||
	    bpf_probe_read_kernel(&vec, sizeof(vec), &master->bi_io_vec) || vec == bio->bi_io_vec)
		return;
	payer = relay_at((u64)vec);
	if (payer)
		relay_keep(bio, payer);
}

/*
 * raid5 gathers writes in stripes. A stripe has a struct r5dev for each disk. That begins with the
 * request to the disk, whose private data are the stripe, and the one to a spare disk. This is the
 * rest of it.
 */
struct relay_stripe_disk {
	struct bio_vec vec, spare_vec;
	void *page, *original_page;
	u64 offset;
	/* Requests from above; each leads a list. */
	struct bio *to_read, *read, *to_write, *written;
	u64 sector, flags, numbers;
};

/* How many disks on either side are looked at. */
#define RELAY_STRIPE_DISKS 16

/* Returns where the rest of a struct r5dev begins whose request is at @request. */
static __always_inline u64 relay_after_requests(u64 request)
{
	return request + 2 * bpf_core_type_size(struct bio);
}

/* Returns the address of @bio as a number: the verifier allows no computing with a pointer. */
static __always_inline u64 relay_address(const struct bio *bio)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &bio);
	return address;
}

/* Returns who pays for what is asked of the disk of a stripe whose request is at @request; NULL:
 * not known. */
static __always_inline struct payer *relay_at_disk(u64 request)
{
	struct relay_stripe_disk disk;
	const struct bio *upper;

	if (bpf_probe_read_kernel(&disk, sizeof(disk), (void *)relay_after_requests(request)))
		return NULL;
	upper = disk.written ?: disk.to_write ?: disk.to_read;
	return upper ? relay_above(upper) : NULL;
}

/*
 * Returns who pays for the request of a stripe at @request, whose private data are at @stripe;
 * NULL: not known. Nothing is asked of the disk with the parity, or of one that is read to compute
 * it. The nearest disk of which something is asked tells who pays. The last disk of the stripe is
 * not known; what lies behind it leads to no vector that is.
 */
static __noinline struct payer *relay_of_stripe(u64 request, u64 stripe)
{
	u64 size = relay_after_requests(sizeof(struct relay_stripe_disk));
	struct payer *payer = relay_at_disk(request);
	u32 turn;

	bpf_for(turn, 0, 2 * RELAY_STRIPE_DISKS) {
		u64 away = (turn / 2 + 1) * size;
		u64 other = turn & 1 ? request + away : request - away;

		if (payer)
			break;
		if (other > stripe)
			payer = relay_at_disk(other);
	}
	return payer;
}

/* Returns who pays for @bio, which a kernel thread passes on; NULL: not known. Its private data
 * come first: a vector of copies may have been that of another request. A request of a stripe has
 * its vector behind it. */
static __always_inline struct payer *relay_of(const struct bio *bio)
{
	struct relay_private data;
	struct payer *payer = NULL;

	if ((u64)bio->bi_io_vec == relay_after_requests((u64)bio))
		return relay_of_stripe(relay_address(bio), (u64)bio->bi_private);
	if (bio->bi_private && !bpf_probe_read_kernel(&data, sizeof(data), bio->bi_private)) {
		payer = relay_above(data.crypt_base);
		if (!payer)
			relay_keep_copy(bio, &data);
	}
	return payer ?: relay_at((u64)bio->bi_io_vec);
}

#endif /* DRFQ_RELAY_BPF_H */
