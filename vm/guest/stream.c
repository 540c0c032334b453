// SPDX-License-Identifier: GPL-2.0-only
// Runs memory streams on chosen CPUs at the same time, one process each (mbw runs a single one).
// Prints one line of JSON per stream with the bytes that it moved.
//
//   stream [-s SECONDS] [-k KIB] [-w PASSES] [-m MB/S] [-a US] [-r] [-t] OP@CPU[@RESCTRL GROUP] ...
//
//   OP  copy, read, write, nt (writes with non-temporal stores), chase (each read waits for the one
//       before), or spin (no memory)
//   -s  seconds of the monotonic clock (default 0.2)
//   -k  working set in KiB (default 16384); a copy splits it between source and destination
//   -w  warm-up passes before the time starts (default 1)
//   -m  the most that each stream moves in a second of its time, 10^6 bytes as it counts them
//       (default: no limit). It waits after every 4 KiB, without a read or write.
//   -a  the streams take turns of so many microseconds: one moves memory, the others sleep
//   -r  small pages, touched in random order. Their place among the DRAM's banks is then an average
//       over many pages, as on a system that has run for a while.
//   -t  the first stream writes ground truth when its time starts and ends
//
// A stream joins its resctrl group (a directory) before it touches its pages.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugin_call.h"

// The clock is read after this many words, and more often where a rate is kept or turns are taken,
// so that the traffic is even.
enum { MEBI = 1 << 20, WORDS_PER_STEP = 4096, WORDS_PER_PACED_STEP = 512, WORDS_PER_LINE = 8 };

struct options {
  double seconds;
  double bytes_per_s;  // 0: no limit
  double turn;         // seconds; 0: no turns
  int streams;
  size_t bytes;
  unsigned warm_up;
  int scattered, ground_truth;
};

// Shared by all streams.
struct start {
  atomic_int ready;
  atomic_int go;
};

// Two streams that have a turn after each other share a pipe. A byte in it is the turn.
enum { STREAMS_MAX = 64 };
static int turns[STREAMS_MAX][2];

static void die(const char *what) {
  fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Touches every page once, in random order. *random: the generator's state. It advances, so the
// two arrays of a stream differ, but every run is the same.
static void touch_scattered(char *p, size_t bytes, size_t page, uint64_t *random) {
  const size_t pages = (bytes + page - 1) / page;
  size_t *order = malloc(pages * sizeof *order);
  if (order == NULL) die("memory");
  for (size_t i = 0; i < pages; i++) order[i] = i;
  for (size_t i = pages; i > 1; i--) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    const size_t other = (*random >> 33) % i, last = order[i - 1];
    order[i - 1] = order[other], order[other] = last;
  }
  for (size_t i = 0; i < pages; i++) p[order[i] * page] = 1;
  free(order);
}

// Allocates and touches memory. Without random it lies on huge pages, so that its place in the
// cache does not vary between runs.
static uint64_t *memory(size_t bytes, uint64_t *random) {
  const size_t huge = 2 * MEBI;
  const size_t whole = (bytes + huge - 1) / huge * huge;
  char *p = mmap(NULL, whole + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) die("memory");
  p += (huge - (uintptr_t)p % huge) % huge;
  madvise(p, whole, random != NULL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  if (random != NULL) touch_scattered(p, bytes, (size_t)sysconf(_SC_PAGESIZE), random);
  memset(p, 1, bytes);
  return (uint64_t *)p;
}

// Each of these moves n words, 8 at a time, and returns the bytes.
static uint64_t copy(uint64_t *restrict to, const uint64_t *restrict from, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];
    to[i] = a, to[i + 1] = b, to[i + 2] = c, to[i + 3] = d;
    a = from[i + 4], b = from[i + 5], c = from[i + 6], d = from[i + 7];
    to[i + 4] = a, to[i + 5] = b, to[i + 6] = c, to[i + 7] = d;
    __asm__ volatile("" ::: "memory");
  }
  return n * sizeof *to;
}

static uint64_t read_all(const uint64_t *from, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i += 8) {
    sum += from[i] + from[i + 1] + from[i + 2] + from[i + 3] + from[i + 4] + from[i + 5] +
           from[i + 6] + from[i + 7];
    __asm__ volatile("" : "+r"(sum)::"memory");
  }
  return n * sizeof *from;
}

static uint64_t write_all(uint64_t *to, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    for (size_t j = 0; j < 8; j++) to[i + j] = i;
    __asm__ volatile("" ::: "memory");
  }
  return n * sizeof *to;
}

static uint64_t write_streaming(uint64_t *to, size_t n) {
  for (size_t i = 0; i < n; i++) __builtin_ia32_movnti64((long long *)&to[i], (long long)i);
  return n * sizeof *to;
}

static uint64_t spin(size_t n) {
  for (size_t i = 0; i < n; i++) __asm__ volatile("");
  return n;
}

// Links the lines of the array into one random cycle: the first word of each is the next one's.
static void link_lines(uint64_t *lines, size_t words, uint64_t *random) {
  const size_t n = words / WORDS_PER_LINE;
  for (size_t i = 0; i < n; i++) lines[i * WORDS_PER_LINE] = i;
  for (size_t i = n; i > 1; i--) {  // Sattolo's shuffle
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const size_t other = (*random >> 33) % (i - 1);
    const uint64_t swapped = lines[(i - 1) * WORDS_PER_LINE];
    lines[(i - 1) * WORDS_PER_LINE] = lines[other * WORDS_PER_LINE];
    lines[other * WORDS_PER_LINE] = swapped;
  }
}

// Follows the cycle. Each load waits for the one before.
static uint64_t chase(const uint64_t *lines, size_t words) {
  static uint64_t line;
  for (size_t i = 0; i < words; i += WORDS_PER_LINE) line = lines[line * WORDS_PER_LINE];
  __asm__ volatile("" : "+r"(line)::"memory");
  return words * sizeof *lines;
}

static uint64_t work(const char *op, uint64_t *a, uint64_t *b, size_t from, size_t n) {
  if (strcmp(op, "copy") == 0) return copy(a + from, b + from, n);
  if (strcmp(op, "read") == 0) return read_all(b + from, n);
  if (strcmp(op, "write") == 0) return write_all(a + from, n);
  if (strcmp(op, "nt") == 0) return write_streaming(a + from, n);
  if (strcmp(op, "chase") == 0) return chase(b, n);
  return spin(n);
}

static int known(const char *op) {
  return strcmp(op, "copy") == 0 || strcmp(op, "read") == 0 || strcmp(op, "write") == 0 ||
         strcmp(op, "nt") == 0 || strcmp(op, "chase") == 0 || strcmp(op, "spin") == 0;
}

static void join(const char *group) {
  char path[512];
  snprintf(path, sizeof path, "%s/tasks", group);
  FILE *f = fopen(path, "w");
  if (f == NULL || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f) != 0) die(path);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
}

// Makes the pipes. The first stream has the first turn.
static void make_turns(int streams) {
  if (streams > STREAMS_MAX) {
    fprintf(stderr, "stream: -a: at most %d streams take turns\n", STREAMS_MAX);
    exit(2);
  }
  for (int i = 0; i < streams; i++)
    if (pipe(turns[i]) != 0) die("pipe");
  if (streams > 0 && write(turns[0][1], "", 1) != 1) die("turn");
}

static void take_turn(int number) {
  char turn;
  if (read(turns[number][0], &turn, 1) != 1) die("turn");
}

static void give_turn(int number) {
  if (write(turns[number][1], "", 1) != 1) die("turn");
}

// Runs the stream of a number, from 0. It spins until the start, so that all streams begin
// together. A sleeping CPU would wake later, by a time that depends on the host's load.
static void run(const struct options *o, int number, const char *op, int cpu, const char *group,
                struct start *start) {
  // The stream ends with its parent; otherwise it could spin for ever.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) die("prctl");
  pin(cpu);
  if (group != NULL) join(group);
  const size_t bytes = strcmp(op, "copy") == 0 ? o->bytes / 2 : o->bytes;
  const size_t words = bytes / sizeof(uint64_t),
               most = o->bytes_per_s > 0 || o->turn > 0 ? WORDS_PER_PACED_STEP : WORDS_PER_STEP,
               step = words < most ? words : most;
  uint64_t seed = (uint64_t)cpu + 1, *random = o->scattered ? &seed : NULL;
  uint64_t *a = memory(bytes, random), *b = memory(bytes, random), moved = 0;
  if (strcmp(op, "chase") == 0) link_lines(b, words, &seed);
  for (unsigned pass = 0; pass < o->warm_up; pass++) work(op, a, b, 0, words);
  atomic_fetch_add(&start->ready, 1);
  while (!atomic_load(&start->go)) __builtin_ia32_pause();
  if (o->ground_truth) request_ground_truth();
  if (o->turn > 0) take_turn(number);
  const double begin = now();
  double end = begin, turn_end = begin + o->turn;
  for (size_t i = 0; end - begin < o->seconds; end = now()) {
    moved += work(op, a, b, i, step);
    i = i + 2 * step <= words ? i + step : 0;
    while (o->bytes_per_s > 0 && (now() - begin) * o->bytes_per_s < (double)moved)
      __builtin_ia32_pause();
    if (o->turn > 0 && now() >= turn_end) {
      give_turn((number + 1) % o->streams);
      take_turn(number);
      turn_end = now() + o->turn;
    }
  }
  if (o->turn > 0) give_turn((number + 1) % o->streams);
  if (o->ground_truth) request_ground_truth();
  printf("{\"op\":\"%s\",\"cpu\":%d,\"bytes\":%llu,\"seconds\":%.9f,\"bytes_per_ns\":%.6f}\n", op,
         cpu, (unsigned long long)moved, end - begin, (double)moved / (end - begin) / 1e9);
  fflush(stdout);
}

int main(int argc, char **argv) {
  struct options o = {.seconds = 0.2, .bytes = 16 * MEBI, .warm_up = 1};
  for (int c; (c = getopt(argc, argv, "s:k:w:m:a:rt")) != -1;) {
    if (c == 's')
      o.seconds = atof(optarg);
    else if (c == 'k')
      o.bytes = (size_t)atol(optarg) * 1024;
    else if (c == 'w')
      o.warm_up = (unsigned)atoi(optarg);
    else if (c == 'm')
      o.bytes_per_s = 1e6 * atof(optarg);
    else if (c == 'a')
      o.turn = 1e-6 * atof(optarg);
    else if (c == 'r')
      o.scattered = 1;
    else if (c == 't')
      o.ground_truth = 1;
    else
      return 2;
  }
  struct start *start =
      mmap(NULL, sizeof *start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) die("memory");
  o.streams = argc - optind;
  if (o.turn > 0) make_turns(o.streams);
  for (int i = optind; i < argc; i++) {
    char *at = strchr(argv[i], '@');
    if (at != NULL) *at++ = 0;
    if (at == NULL || !known(argv[i])) {
      fprintf(stderr, "stream: %s: expected OP@CPU[@GROUP]; see the beginning of stream.c for OP\n",
              argv[i]);
      return 2;
    }
    char *group = strchr(at, '@');
    if (group != NULL) *group++ = 0;
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child != 0) {
      o.ground_truth = 0;
      continue;
    }
    run(&o, i - optind, argv[i], atoi(at), group, start);
    return 0;
  }
  for (int status; atomic_load(&start->ready) < argc - optind; usleep(1000))
    if (waitpid(-1, &status, WNOHANG) > 0) return 1;  // the stream has printed why
  atomic_store(&start->go, 1);
  int status, failed = 0;
  while (wait(&status) > 0) failed |= status != 0;
  return failed;
}
