/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * C interface of the controller core, for hosts that are not C++.
 *
 * One object is one controller. Not thread-safe. Nothing is allocated between
 * drfq_mc_new() and drfq_mc_free(). Every value of an argument is safe; pointers must be valid.
 * Time never goes back: an earlier now_ps means the present.
 */
#ifndef DRFQ_MC_H
#define DRFQ_MC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct drfq_mc;

#define DRFQ_MC_NO_CORE UINT32_MAX
#define DRFQ_MC_BAD_PACKET (-1)

struct drfq_mc_options {
  uint32_t policy;        /* 0: lowest virtual time first, 1: FR-FCFS */
  uint32_t cores;         /* 1..4096 */
  uint32_t read_entries;  /* 1..256 */
  uint32_t write_entries; /* 1..256 */
  uint32_t tie_bursts;    /* shortest run of one direction while virtual times tie */
  uint32_t run_bursts;    /* 0..256: the same whatever the virtual times; 0: the thesis */
  uint64_t aging_ps;      /* 0: off */
};

struct drfq_mc_packet {
  uint32_t core;      /* DRFQ_MC_NO_CORE: none */
  uint32_t substream; /* 0: none */
  uint32_t bytes;
  uint32_t bursts;    /* entries the packet needs, 0..256 */
  uint32_t in_flight; /* reads that left the queue unanswered */
  bool write;
};

struct drfq_mc_attribution {
  uint32_t pid; /* 0: unattributed */
  uint64_t vtime;
};

/* The host's view of its DRAM. Only drfq_mc_choose() calls these functions. */
struct drfq_mc_view {
  void *context;
  bool (*ready)(void *context, uint16_t bank);
  bool (*row_hit)(void *context, uint16_t bank, uint32_t row);
  /* These two serve FR-FCFS alone and may be NULL otherwise. */
  uint64_t (*column_at)(void *context, uint16_t bank, bool write);
  uint64_t (*activate_at)(void *context, uint16_t bank);
  uint64_t row_to_column_ps;
  uint64_t turnaround_ps[2]; /* to read, to write */
};

struct drfq_mc_burst {
  uint64_t arrival_ps;
  uint64_t vtime;
  uint32_t row;
  uint16_t bank;
  uint16_t handle;
  bool write;
  bool aged;
};

/* The thesis' controller with 4 cores, and an aging bound of 1 ms. */
void drfq_mc_defaults(struct drfq_mc_options *options);

/* NULL: out of memory, no options, or an option out of its range. */
struct drfq_mc *drfq_mc_new(const struct drfq_mc_options *options);
void drfq_mc_free(struct drfq_mc *mc);

/* Registers. Return drfq::Access: 0 done, 1 bad address, 2 read-only, 3 bad value. */
int drfq_mc_read(struct drfq_mc *mc, uint64_t offset, uint64_t *value);
int drfq_mc_peek(const struct drfq_mc *mc, uint64_t offset, uint64_t *value);
int drfq_mc_write(struct drfq_mc *mc, uint64_t offset, uint64_t value);

/*
 * Returns drfq::Admission: 0 accepted and counted, 1 full, 2 reserved; or DRFQ_MC_BAD_PACKET for
 * more than 256 bursts, which changes nothing.
 */
int drfq_mc_arrive(struct drfq_mc *mc, const struct drfq_mc_packet *packet,
                   struct drfq_mc_attribution *attribution);

/*
 * Queues one burst of a packet that was accepted. False, and nothing is queued: a bank of 256 or
 * more, a pid that drfq_mc_arrive() cannot have returned, or no room.
 */
bool drfq_mc_enqueue(struct drfq_mc *mc, bool write, const struct drfq_mc_attribution *attribution,
                     uint64_t now_ps, uint16_t bank, uint32_t row, uint16_t handle);

/*
 * Chooses and removes the next burst. False: none can be served now, or the view lacks a function
 * that the policy calls.
 */
bool drfq_mc_choose(struct drfq_mc *mc, const struct drfq_mc_view *view, uint64_t now_ps,
                    uint64_t bus_free_ps, struct drfq_mc_burst *burst);

uint32_t drfq_mc_waiting(const struct drfq_mc *mc, bool write);

#ifdef __cplusplus
}
#endif

#endif
