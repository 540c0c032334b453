/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of runnable tasks, each in order of S. A task waits
 *   - on the queue of its CPU, if it may run on one CPU only (it is pinned);
 *   - on the queue of its LLC, if it may run on every CPU of the LLC;
 *   - on the partial queue of its LLC otherwise.
 *
 * So each task of a CPU's queue may run on that CPU, and each task of an LLC's queue on
 * every CPU of that LLC: their heads need no search. Only a partial queue is searched,
 * and the search is limited. All queues share one V, so their heads can be compared.
 *
 * A CPU prefers its own three queues. Each dispatch compares them with the queues of
 * one other LLC, and takes from there if a head is earlier by steal_margins_ns. With one
 * LLC and no affinity this is the order of the thesis.
 */
#ifndef DRFQ_QUEUE_BPF_H
#define DRFQ_QUEUE_BPF_H

/*
 * Not 0: the partial queue of this LLC has had tasks. Most machines never have any, and
 * then no CPU looks at the queue.
 */
static u32 partial_used[DRFQ_MAX_LLCS];

/*
 * The LLCs whose queues may have tasks, one bit each, if there are several. A task may
 * wait in the queue of one LLC for a CPU of another. The bits are written only when
 * they change. A CPU without tasks of its own looks only there, so its work does not grow
 * with LLCs. Bits are hints: the kernel inserts a task after ops.enqueue has returned, so a
 * CPU may clear a bit in between. The next insertion or the timer sets it again, and the
 * CPUs of that LLC look at its queues in any case.
 */
static u64 queued_llcs;

/*
 * How many CPUs of this LLC exchange tasks: each has taken a task from a queue in place of
 * one that goes on waiting, which the kernel queues a moment later.
 */
static struct shared_u32 exchanges[DRFQ_MAX_LLCS];

/*
 * A queue to take from. dsq: its id, 0 for none. start: the key of its head (ns). far_dsq: a
 * partial queue where the search for a task gave up, 0 for none. If it has one for the
 * CPU, that one's key is far_start at least (ns). any: not 0 if a queue has a task, for
 * whichever CPU.
 */
struct queue_pick {
	u64 dsq;
	u64 start;
	u64 far_dsq;
	u64 far_start;
	u32 any;
};

/* Creates @count queues with ids from @first on. Returns 0 or a negative errno. */
static s32 queue_create(u64 first, u32 count)
{
	s32 err;
	u32 i;

	bpf_for(i, 0, count) {
		err = scx_bpf_create_dsq(first + i, -1);
		if (err) {
			scx_bpf_error("cannot create queue %llx: %d", first + i, err);
			return err;
		}
	}
	return 0;
}

/* Creates the queues. Returns 0 or a negative errno. */
static s32 queue_init(void)
{
	s32 err = queue_create(DRFQ_DSQ_LLC, nr_llcs);

	err = err ?: queue_create(DRFQ_DSQ_PARTIAL, nr_llcs);
	err = err ?: queue_create(DRFQ_DSQ_CPU, nr_cpu_ids);
	err = err ?: queue_create(DRFQ_DSQ_HELD, 1);
	return err ?: queue_create(DRFQ_DSQ_THROTTLED, 1);
}

/* Returns the LLCs (bit i: LLC i) of which @allowed has every CPU that is online. */
static __noinline u64 queue_whole_llcs(const struct cpumask *allowed)
{
	u64 whole = ~(u64)verifier_zero;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		u32 llc = llc_of_cpu(cpu) & (DRFQ_MAX_LLCS - 1);

		if (!cpu_offline[cpu_index(cpu)] && !bpf_cpumask_test_cpu(cpu, allowed))
			whole &= ~(1ULL << llc);
	}
	return whole;
}

/*
 * Returns the DSQ that @p, with account @t, waits on. The effective mask of a task that
 * must not migrate for now is smaller than its configured one, so it is partial.
 */
static u64 queue_of(const struct task_struct *p, const struct task_ctx *t)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u32 llc = llc_of_cpu(cpu);

	if (task_is_pinned(p))
		return DRFQ_DSQ_CPU + cpu;
	return (t && t->whole_llcs & 1ULL << llc ? DRFQ_DSQ_LLC : DRFQ_DSQ_PARTIAL) + llc;
}

/* Returns the queue that @p waits on; 0: on none of them. */
static __always_inline u64 waiting_dsq(const struct task_struct *p)
{
	u64 id = p->scx.dsq ? p->scx.dsq->id : 0;

	return id >= DRFQ_DSQ_LLC && id < DRFQ_DSQ_CPU + DRFQ_MAX_CPUS ? id : 0;
}

/* Lets the CPUs of @dsq know that it may have tasks. */
static void queue_announce(u64 dsq)
{
	u32 llc = dsq & (DRFQ_MAX_LLCS - 1);

	if (dsq >= DRFQ_DSQ_CPU) {
		WRITE_ONCE(cpu_slot(dsq - DRFQ_DSQ_CPU)->pinned_queued, 1);
		return;
	}
	if (dsq >= DRFQ_DSQ_PARTIAL && !READ_ONCE(partial_used[llc]))
		WRITE_ONCE(partial_used[llc], 1);
	if (nr_llcs > 1 && !(READ_ONCE(queued_llcs) & 1ULL << llc))
		__sync_fetch_and_or(&queued_llcs, 1ULL << llc);
}

/* Returns whether tasks wait for any CPU of @llc. */
static __always_inline bool queue_llc_has_tasks(u32 llc)
{
	return scx_bpf_dsq_nr_queued(DRFQ_DSQ_LLC + llc) > 0 ||
	       (READ_ONCE(partial_used[llc & (DRFQ_MAX_LLCS - 1)]) &&
		scx_bpf_dsq_nr_queued(DRFQ_DSQ_PARTIAL + llc) > 0);
}

/*
 * The queues of @llc had no task for a CPU: clears the bit if they are empty. CPUs tick
 * together, so a CPU may look while another one exchanges the only task that waits.
 */
static void queue_unmark(u32 llc)
{
	u32 place = llc & (DRFQ_MAX_LLCS - 1);
	u64 bit = 1ULL << place;

	if ((READ_ONCE(queued_llcs) & bit) && !READ_ONCE(exchanges[place].value) &&
	    !queue_llc_has_tasks(llc))
		__sync_fetch_and_and(&queued_llcs, ~bit);
}

/* Returns the bits of the LLCs other than @llc whose queues may have tasks. */
static __always_inline u64 queue_other_llcs(u32 llc)
{
	return READ_ONCE(queued_llcs) & ~(1ULL << (llc & (DRFQ_MAX_LLCS - 1)));
}

/*
 * Sets the bits that were cleared while a task was inserted, and clears those of LLCs whose tasks
 * CPUs of other LLCs have taken.
 */
static void queue_correct_marks(void)
{
	u32 llc;

	if (nr_llcs < 2)
		return;
	bpf_for(llc, 0, nr_llcs) {
		if (queue_llc_has_tasks(llc))
			queue_announce(DRFQ_DSQ_LLC + llc);
		else
			queue_unmark(llc);
	}
}

/* Returns whether pinned tasks wait for @cpu. */
static __always_inline bool queue_pinned_wait(s32 cpu)
{
	return READ_ONCE(cpu_slot(cpu)->pinned_queued) &&
	       scx_bpf_dsq_nr_queued(DRFQ_DSQ_CPU + cpu) > 0;
}

static __always_inline u32 *exchanges_of(s32 cpu)
{
	return &exchanges[llc_of_cpu(cpu) & (DRFQ_MAX_LLCS - 1)].value;
}

/*
 * Returns whether a task waits in any queue that @cpu takes from. CPUs tick together, so
 * this is often asked while another CPU exchanges the only task that waits.
 */
static __always_inline bool queue_has_waiters(s32 cpu)
{
	return READ_ONCE(queued_llcs) || queue_llc_has_tasks(llc_of_cpu(cpu)) ||
	       queue_pinned_wait(cpu) || READ_ONCE(*exchanges_of(cpu));
}

/* @cpu, with @slot, is about to take a task in place of one that goes on waiting. */
static __always_inline void exchange_begin(struct drfq_cpu *slot, s32 cpu)
{
	if (slot->exchanging)
		return;
	slot->exchanging = 1;
	__sync_fetch_and_add(exchanges_of(cpu), 1);
}

/* The kernel has queued the other task. */
static __always_inline void exchange_end(struct drfq_cpu *slot, s32 cpu)
{
	if (!slot->exchanging)
		return;
	slot->exchanging = 0;
	__sync_fetch_and_add(exchanges_of(cpu), -1);
}

/* The slice of a task whose place in its queue is not its S (ns). */
#define PLACED_SLICE (slice_ns + 2)

/* Returns whether the place of @p in its queue is not its S, and it has not run since. */
static __always_inline bool was_placed(const struct task_struct *p)
{
	return p->scx.slice == PLACED_SLICE;
}

/* Inserts @p into its queue. @key: its place there (ns), usually S. */
static void queue_insert(struct task_struct *p, struct task_ctx *t, u64 key, u64 enq_flags)
{
	u64 slice = key == drfq_start(&t->flow) ? slice_ns : PLACED_SLICE, dsq = queue_of(p, t);

	if (was_released(p))
		slice = RELEASED_SLICE;
	/* A CPU's queue is inserted into and taken from under the same run-queue lock,
	 * so the insertion, which follows this callback, is not missed. */
	queue_announce(dsq);
	if (task_is_urgent(p))
		urgent_begin(p, t);
	scx_bpf_dsq_insert_vtime(p, dsq, slice, key, enq_flags);
	count(DRFQ_EV_QUEUED);
}

/*
 * Like queue_pinned_wait(). If no task waits, later calls know it without a look at the
 * queue. The caller holds the run-queue lock of @cpu, as insertions do. Only releases of
 * held and of throttled tasks insert without it: they insert first and announce then, and
 * this function clears first and looks then.
 */
static bool queue_has_pinned(s32 cpu)
{
	struct drfq_cpu *slot = cpu_slot(cpu);

	if (!READ_ONCE(slot->pinned_queued))
		return false;
	if (scx_bpf_dsq_nr_queued(DRFQ_DSQ_CPU + cpu) > 0)
		return true;
	/* Orders the store before the look. Without a use of its result, an atomic operation may
	 * order nothing. */
	if (!__sync_lock_test_and_set(&slot->pinned_queued, 0))
		return false;
	if (scx_bpf_dsq_nr_queued(DRFQ_DSQ_CPU + cpu) <= 0)
		return false;
	WRITE_ONCE(slot->pinned_queued, 1);
	return true;
}

/* How many tasks of a partial queue a search examines to find one for a CPU. */
#define QUEUE_SEARCH_MAX 64

/*
 * 0, of which the verifier knows nothing. Where a loop counts from it, the counter has the same
 * range in each turn, so the verifier follows two or three turns. It follows every turn of a
 * loop that counts from a constant.
 */
u32 unknown_zero;

/*
 * The slow path of queue_look(), for a head that may not run on @cpu. Returns whether
 * there is a task for @cpu, of key *@start. If the search gives up, this becomes a far
 * queue of @pick.
 */
static __noinline bool queue_search(u64 dsq, s32 cpu, u64 *start, struct queue_pick *pick)
{
	struct task_struct *p;
	u32 looks = unknown_zero;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		*start = p->scx.dsq_vtime;
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
		if (++looks < QUEUE_SEARCH_MAX)
			continue;
		if (!pick->far_dsq || drfq_before(*start, pick->far_start)) {
			pick->far_dsq = dsq;
			pick->far_start = *start;
		}
		return false;
	}
	return false;
}

/*
 * Makes @dsq the pick of @cpu if it has a task for @cpu that is earlier than the pick so
 * far by more than @margin (ns), among its first QUEUE_SEARCH_MAX tasks. A global
 * function, like those of flow.bpf.h. Returns 0.
 */
__noinline int queue_look(u64 dsq, s32 cpu, u64 margin, struct queue_pick *pick __arg_nonnull)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq);
	u64 start;

	if (!p)
		return 0;
	pick->any = 1;
	start = p->scx.dsq_vtime;
	if (pick->dsq && !drfq_before(start + margin, pick->start))
		return 0;
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !queue_search(dsq, cpu, &start, pick))
		return 0;
	if (pick->dsq && !drfq_before(start + margin, pick->start))
		return 0;
	pick->dsq = dsq;
	pick->start = start;
	return 0;
}

/* queue_look() for both queues of @llc. */
static void queue_look_llc(u32 llc, s32 cpu, u64 margin, struct queue_pick *pick)
{
	queue_look(DRFQ_DSQ_LLC + llc, cpu, margin, pick);
	if (READ_ONCE(partial_used[llc & (DRFQ_MAX_LLCS - 1)]))
		queue_look(DRFQ_DSQ_PARTIAL + llc, cpu, margin, pick);
}

/* Picks the earliest head of the CPU's own queues. */
static void queue_choose_own(s32 cpu, struct queue_pick *pick)
{
	u32 llc = llc_of_cpu(cpu);

	queue_look_llc(llc, cpu, 0, pick);
	if (!pick->dsq)
		queue_unmark(llc);
	if (queue_has_pinned(cpu))
		queue_look(DRFQ_DSQ_CPU + cpu, cpu, 0, pick);
}

/* Returns the place of LLC @llc and @i in tables that have a row for each LLC. */
static __always_inline u32 llc_pair(u32 llc, u32 i)
{
	return (llc * DRFQ_MAX_LLCS + i) & (DRFQ_MAX_LLCS * DRFQ_MAX_LLCS - 1);
}

/* Returns the LLC that is at place @i among those that are near to @llc. */
static __always_inline u32 llc_near(u32 llc, u32 i)
{
	return near_llcs[llc_pair(llc, i)];
}

/*
 * Picks the queue that @cpu should take from. The other LLC that is compared is drawn at
 * random. A round robin falls into step with the slices, so that each CPU always
 * compares the same LLC. A CPU without tasks of its own tries all LLCs that have some, the
 * nearest first. A global function, like those of flow.bpf.h. Returns 0.
 */
__noinline int queue_choose(s32 cpu, struct queue_pick *pick __arg_nonnull)
{
	u32 i, other, llc = llc_of_cpu(cpu);
	u64 others;

	queue_choose_own(cpu, pick);
	if (nr_llcs < 2)
		return 0;
	if (pick->dsq) {
		other = bpf_get_prandom_u32() % nr_llcs;
		if (other != llc)
			queue_look_llc(other, cpu, steal_margins_ns[llc_pair(llc, other)], pick);
		return 0;
	}
	others = queue_other_llcs(llc);
	if (!others)
		return 0;
	bpf_for(i, 1, nr_llcs) {
		other = llc_near(llc, i);
		if (!(others & 1ULL << (other & (DRFQ_MAX_LLCS - 1))))
			continue;
		queue_look_llc(other, cpu, 0, pick);
		if (pick->dsq)
			break;
	}
	return 0;
}

/* Moves the first task of @dsq that may run on this CPU, which belongs to @llc, to its
 * local DSQ. Returns whether a task was moved. */
static __always_inline bool queue_take(u64 dsq, u32 llc)
{
	if (!scx_bpf_dsq_move_to_local(dsq, 0))
		return false;
	if (dsq < DRFQ_DSQ_CPU && (dsq & (DRFQ_MAX_LLCS - 1)) != llc)
		count(DRFQ_EV_STEALS);
	return true;
}

/*
 * Takes a task for @cpu, with @slot, from the far queue of @pick. The kernel searches that
 * queue to its end. What it finds may be later than the other queues' head, and it may find
 * nothing. So while the others have a task, it is their turn every second time. Returns
 * whether a task was moved.
 */
static bool queue_take_far(struct drfq_cpu *slot, s32 cpu, const struct queue_pick *pick)
{
	if (pick->dsq) {
		if (!drfq_before(pick->far_start, pick->start))
			return false;
		slot->far_turn = !slot->far_turn;
		if (!slot->far_turn)
			return false;
	}
	return queue_take(pick->far_dsq, llc_of_cpu(cpu));
}

/* If @pick has no other task, one of its far queue may wait for the CPU. */
static __always_inline void queue_count_far(struct queue_pick *pick)
{
	if (pick->dsq || !pick->far_dsq)
		return;
	pick->dsq = pick->far_dsq;
	pick->start = pick->far_start;
}

/*
 * Returns whether the kernel would refuse to move @p to @cpu. A task that is switched
 * out with migration disabled is queued before its mask shrinks.
 */
static __always_inline bool queue_task_stays(const struct task_struct *p, s32 cpu)
{
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return true;
	return bpf_core_field_exists(p->migration_disabled) && p->migration_disabled &&
	       scx_bpf_task_cpu(p) != cpu;
}

/*
 * Moves the first task of @dsq that may run on @cpu to its local DSQ, if its key is
 * before @limit (ns). Unlike queue_take(), this does not take the next task if another
 * CPU has taken the head since it was looked at. CPUs often tick together, and the
 * next task may be far later than the task that runs. A global function, like those of
 * flow.bpf.h. Returns whether a task was moved.
 */
__noinline int queue_take_before(u64 dsq, s32 cpu, u64 limit)
{
	struct task_struct *p;
	u32 looks = unknown_zero;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (!drfq_before(p->scx.dsq_vtime, limit))
			return false;
		if (++looks > QUEUE_SEARCH_MAX)
			break;
		if (queue_task_stays(p, cpu))
			continue;
		if (!scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			continue;
		if (dsq < DRFQ_DSQ_CPU && (dsq & (DRFQ_MAX_LLCS - 1)) != llc_of_cpu(cpu))
			count(DRFQ_EV_STEALS);
		return true;
	}
	/* The search gave up: the kernel searches further. */
	return looks > QUEUE_SEARCH_MAX && queue_take(dsq, llc_of_cpu(cpu));
}

/* Takes a task from the queues of LLC @from, for a CPU of @llc. */
static bool queue_take_llc(u32 from, u32 llc)
{
	if (queue_take(DRFQ_DSQ_LLC + from, llc))
		return true;
	return READ_ONCE(partial_used[from & (DRFQ_MAX_LLCS - 1)]) &&
	       queue_take(DRFQ_DSQ_PARTIAL + from, llc);
}

/* Takes a task for @cpu from the first queue that has one: @first (0: none), the own
 * ones, those of all LLCs. A global function, like those of flow.bpf.h. Returns whether a
 * task was moved. */
__noinline int queue_take_any(u64 first, s32 cpu)
{
	u32 i, llc = llc_of_cpu(cpu);

	if (first && queue_take(first, llc))
		return true;
	if (queue_has_pinned(cpu) && queue_take(DRFQ_DSQ_CPU + cpu, llc))
		return true;
	bpf_for(i, 0, nr_llcs) {
		if (queue_take_llc(llc_near(llc, i), llc))
			return true;
	}
	return false;
}

#endif /* DRFQ_QUEUE_BPF_H */
