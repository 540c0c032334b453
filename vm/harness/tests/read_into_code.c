// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads new code into a page that was executed, calls it, and counts the calls that ran the old
 * code.
 *
 * O_DIRECT makes the device write the page itself, so an emulator that translates code must notice
 * that write. Usage: read_into_code FILE ROUNDS, with FILE where O_DIRECT works. Prints "N of
 * ROUNDS calls ran old code" and exits with status 1 if N is not 0.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, VARIANTS = 2 };

/* Writes one page for each variant: a function that returns the variant's number. */
static int write_variants(const char *path) {
  /* mov $N, %eax; ret */
  static const unsigned char function[] = {0xb8, 0, 0, 0, 0, 0xc3};
  unsigned char page[PAGE_BYTES] = {0};
  int variant, fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

  if (fd < 0) return -1;
  memcpy(page, function, sizeof(function));
  for (variant = 0; variant < VARIANTS; variant++) {
    page[1] = (unsigned char)variant;
    if (write(fd, page, sizeof(page)) != PAGE_BYTES) return -1;
  }
  return fsync(fd) ? -1 : close(fd);
}

int main(int argc, char **argv) {
  int round, fd, rounds = argc == 3 ? atoi(argv[2]) : 0, stale = 0;
  unsigned char *page;
  int (*function)(void);

  if (rounds <= 0) {
    fprintf(stderr, "usage: read_into_code FILE ROUNDS\n");
    return 2;
  }
  if (write_variants(argv[1]) || (fd = open(argv[1], O_RDONLY | O_DIRECT)) < 0) {
    perror(argv[1]);
    return 2;
  }
  page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0);
  if (page == MAP_FAILED) {
    perror("mmap");
    return 2;
  }
  memcpy(&function, &page, sizeof(function));
  for (round = 0; round < rounds; round++) {
    int variant = round % VARIANTS;

    if (pread(fd, page, PAGE_BYTES, (off_t)variant * PAGE_BYTES) != PAGE_BYTES) {
      perror("pread");
      return 2;
    }
    stale += function() != variant;
  }
  printf("%d of %d calls ran old code\n", stale, rounds);
  return stale != 0;
}
