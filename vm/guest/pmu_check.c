// SPDX-License-Identifier: GPL-2.0-only
// Reads performance counters around a piece of work and writes ground truth beside it. Tests
// compare the two.
//
//   pmu_check CPU OP MIB
//
// OP: read or write MIB MiB of memory in one pass, or spin (MIB million iterations). The work runs
// once for each of four perf events, between two lines of ground truth. The program prints what
// perf counted in user mode as one line of JSON.
//
// The counter is read by RDPMC next to the ground truth, and nothing between the two accesses
// memory. A run with 0 MIB gives the number of instructions between the two. The ground truth is
// written once more before the counter is read first. That waits for earlier misses, so they are
// not counted with the work.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugin_call.h"

enum { EVENTS = 4 };
static const uint64_t config[EVENTS] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES,
                                        PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CACHE_MISSES};
static const char *const name[EVENTS] = {"instructions", "cycles", "cache_references",
                                         "cache_misses"};

static void die(const char *what) {
  fprintf(stderr, "pmu_check: %s: %s\n", what, strerror(errno));
  exit(1);
}

// Opens an event and returns its counter as the operand of RDPMC.
static uint32_t open_event(uint64_t what) {
  struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                 .size = sizeof attr,
                                 .config = what,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1,
                                 .pinned = 1};
  const int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
  if (fd < 0) die("perf_event_open");
  const struct perf_event_mmap_page *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) die("mmap of an event");
  if (!page->cap_user_rdpmc || page->index == 0) {
    fprintf(stderr,
            "pmu_check: the kernel does not allow RDPMC in user mode (index %u); write 2 to "
            "/sys/bus/event_source/devices/cpu/rdpmc\n",
            page->index);
    exit(1);
  }
  return page->index - 1;
}

static inline uint64_t rdpmc(uint32_t selector) {
  uint32_t low, high;
  __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(selector));
  return low | (uint64_t)high << 32;
}

static void work(const char *op, volatile uint64_t *memory, size_t mib) {
  const size_t words = (mib << 20) / sizeof *memory;
  if (strcmp(op, "spin") == 0) {
    for (uint64_t i = 0; i < mib * 1000000; i++) __asm__ volatile("");
  } else if (strcmp(op, "write") == 0) {
    for (size_t i = 0; i < words; i += 8) memory[i] = i;
  } else {
    for (size_t i = 0; i < words; i += 8) (void)memory[i];
  }
}

// Counts one event during the work, between two lines of ground truth.
static uint64_t count(uint32_t selector, const char *op, uint64_t *memory, size_t mib) {
  work(op, memory, 0);
  request_ground_truth();
  const uint64_t before = rdpmc(selector);
  request_ground_truth();
  work(op, memory, mib);
  request_ground_truth();
  return rdpmc(selector) - before;
}

int main(int argc, char **argv) {
  if (argc != 4 || (strcmp(argv[2], "read") != 0 && strcmp(argv[2], "write") != 0 &&
                    strcmp(argv[2], "spin") != 0)) {
    fprintf(stderr, "usage: pmu_check CPU read|write|spin MIB\n");
    return 2;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(atoi(argv[1]), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
  const size_t mib = (size_t)atol(argv[3]), bytes = (mib ? mib : 1) << 20;
  uint64_t *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) die("mmap of the working set");
  uint32_t selector[EVENTS];
  for (unsigned i = 0; i < EVENTS; i++) selector[i] = open_event(config[i]);
  const uint64_t mask = (UINT64_C(1) << 48) - 1;
  printf("{\"op\":\"%s\",\"mib\":%zu", argv[2], mib);
  for (unsigned i = 0; i < EVENTS; i++)
    printf(",\"%s\":%llu", name[i],
           (unsigned long long)(count(selector[i], argv[2], memory, mib) & mask));
  printf("}\n");
  return 0;
}
