/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The task that last dirtied each stretch of a file. Kernel threads write dirty pages out
 * later, and dma.bpf.h then charges that task.
 *
 * The kernel tells of a folio when it becomes dirty, not of further writes to it. A folio
 * is what the page cache holds: one page, or several aligned ones.
 */
#ifndef DRFQ_DIRTIER_BPF_H
#define DRFQ_DIRTIER_BPF_H

/*
 * Pages of a stretch, as a power of two. With pages of 4 KiB no folio of the page cache
 * has more, so that each lies in one stretch.
 */
#define DIRTIER_STRETCH_SHIFT 9

/* Stretches that the scheduler remembers. They take some 7 MB. */
#define DIRTIER_STRETCHES 65536

/* The type of a file, in the mode of its inode. */
#define S_IFMT 00170000
#define S_IFBLK 0060000

struct dirtier_key {
	u64 mapping; /* address of the file's struct address_space */
	u64 stretch;
};

/*
 * An address may become that of another file. An entry of the old one is harmless: dirtying
 * a page of the new one replaces it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DIRTIER_STRETCHES);
	__type(key, struct dirtier_key);
	__type(value, struct payer);
} dirtiers SEC(".maps");

/* A flag of struct task_struct: the task writes to a file or a device what others wrote to a
 * device of its own. */
#define PF_LOCAL_THROTTLE 0x00100000

/* What a tail page has in Linux 6.16, where vmlinux.h has compound_info. */
struct page___tail {
	unsigned long compound_head;
} __attribute__((preserve_access_index));

/* Whether dirty pages and their files can be found on this kernel. */
static __always_inline bool dirtier_is_known(void)
{
	struct bio *bio = NULL;
	struct bio_vec *vec = NULL;
	struct page *page = NULL;
	struct page___tail *tail = NULL;
	struct folio *folio = NULL;
	struct address_space *mapping = NULL;

	return tracks_dirtiers && bpf_core_field_exists(bio->bi_io_vec) &&
	       bpf_core_field_exists(vec->bv_page) &&
	       (bpf_core_field_exists(page->compound_info) ||
		bpf_core_field_exists(tail->compound_head)) &&
	       bpf_core_field_exists(folio->mapping) && bpf_core_field_exists(folio->index) &&
	       bpf_core_field_exists(mapping->host);
}

/*
 * Returns the address of the first page of the folio that has the page at @address. A tail
 * page has bit 0 set and tells where that is: by its address, or in newer kernels by a mask,
 * which has more leading ones than any address of a page.
 */
static __always_inline u64 dirtier_head(u64 address)
{
	const struct page *page = (const struct page *)address;
	const struct page___tail *tail = (const struct page___tail *)address;
	u64 info = 0;

	/* The field shares its place with a pointer, so the verifier wants it to be copied. */
	if (bpf_core_field_exists(page->compound_info))
		bpf_probe_read_kernel(&info, sizeof(info), &page->compound_info);
	else
		bpf_probe_read_kernel(&info, sizeof(info), &tail->compound_head);
	if (!(info & 1))
		return address;
	return info >> 32 == 0xffffffff ? address & info : info - 1;
}

static __always_inline struct dirtier_key dirtier_key_of(const struct folio *folio, u64 mapping)
{
	return (struct dirtier_key){mapping, folio->index >> DIRTIER_STRETCH_SHIFT};
}

/*
 * Returns who dirtied the first page of @bio; NULL: not known. Bytes of other memory (an
 * encrypted copy, a program's own) have no entry.
 */
static struct payer *dirtier_of(const struct bio *bio)
{
	const struct bio_vec *first;
	const struct folio *folio;
	struct dirtier_key key;
	u64 page;

	if (!dirtier_is_known() || !bio->bi_io_vec)
		return NULL;
	first = bio->bi_io_vec + bio->bi_iter.bi_idx;
	if (bpf_probe_read_kernel(&page, sizeof(page), &first->bv_page))
		return NULL;
	folio = bpf_core_cast((void *)dirtier_head(page), struct folio);
	key = dirtier_key_of(folio, (u64)folio->mapping);
	return bpf_map_lookup_elem(&dirtiers, &key);
}

/*
 * Returns whether the kernel thread @p, which dirties a folio of @mapping, does so for the one
 * that did before. The one that writes a file out dirties again what it cannot write yet. A
 * journal's dirties blocks of the file system. Others write files for clients (nfsd), or for
 * the device that a file holds (the loop driver). What they write has no owner.
 */
static __always_inline bool dirtier_stays(const struct task_struct *p,
					  const struct address_space *mapping)
{
	return (p->flags & (PF_WQ_WORKER | PF_LOCAL_THROTTLE)) == PF_WQ_WORKER &&
	       (mapping->host->i_mode & S_IFMT) != S_IFBLK;
}

/* A folio becomes dirty; the current task does it. */
static void dirtier_keep(const struct folio *folio, const struct address_space *mapping,
			 bool second)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct payer *last, now = {};
	struct dirtier_key key;

	if (!dirtier_is_known() || !mapping)
		return;
	if (twice_handled(p, twice_mark(TWICE_DIRTY, folio, folio->index), second))
		return;
	key = dirtier_key_of(folio, (u64)mapping);
	if (task_is_kthread(p)) {
		if (!dirtier_stays(p, mapping))
			bpf_map_delete_elem(&dirtiers, &key);
		return;
	}
	payer_set(&now, p);
	last = bpf_map_lookup_elem(&dirtiers, &key);
	if (!last || !payer_is(last, p))
		bpf_map_update_elem(&dirtiers, &key, &now, BPF_ANY);
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(drfq_dirty, struct folio *folio, struct address_space *mapping)
{
	dirtier_keep(folio, mapping, false);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(drfq_dirty2, struct folio *folio, struct address_space *mapping)
{
	dirtier_keep(folio, mapping, true);
	return 0;
}

#endif /* DRFQ_DIRTIER_BPF_H */
