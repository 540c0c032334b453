// SPDX-License-Identifier: GPL-2.0-only
// Reads and writes the memory controller's registers through the PCI device of the virtual machine.
// Executes its arguments in order:
//
//   controller_registers COMMAND ...
//
//   read OFFSET           prints the register
//   write OFFSET VALUE
//   publish CORE PID VTIME
//                         stores the core's process and virtual time in its label in the mailbox,
//                         which the first publish sets up
//   run PROGRAM ...       runs a program with the rest of the arguments and exits with its status
//
// Numbers may be hexadecimal (0x...). Offsets are those of
// gem5-backend/interface/registers.toml; docs/reference/registers.md explains the mailbox.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller_device.h"

static void die(const char *what) {
  fprintf(stderr, "controller_registers: %s: %s\n", what, errno ? strerror(errno) : "not found");
  exit(1);
}

static volatile uint64_t *map_registers(void) {
  char device[256], path[512];
  errno = 0;
  if (find_controller_device(device, sizeof device) != 0)
    die("the controller's PCI device (is this a VM of vm/vm run --machine?)");
  snprintf(path, sizeof path, "%s/resource%d", device, MACHINE_CONTROLLER_BAR);
  const int fd = open(path, O_RDWR | O_SYNC);
  if (fd < 0) die(path);
  void *p = mmap(NULL, MACHINE_CONTROLLER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) die(path);
  close(fd);
  return p;
}

static uint64_t number(const char *text) {
  char *end;
  const uint64_t value = strtoull(text == NULL ? "" : text, &end, 0);
  if (text == NULL || *text == 0 || *end != 0) {
    fprintf(stderr, "controller_registers: %s: expected a number\n",
            text == NULL ? "(missing)" : text);
    exit(2);
  }
  return value;
}

static uint64_t offset(const char *text) {
  const uint64_t value = number(text);
  if (value % 8 == 0 && value < MACHINE_CONTROLLER_BYTES) return value;
  fprintf(stderr, "controller_registers: %s: offsets are multiples of 8 below %#x\n", text,
          MACHINE_CONTROLLER_BYTES);
  exit(2);
}

static uint64_t physical(const void *p) {
  uint64_t entry = 0;
  const int fd = open("/proc/self/pagemap", O_RDONLY);
  if (fd < 0 || pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)p / 4096 * 8)) != sizeof entry)
    die("pagemap");
  close(fd);
  return (entry & ((UINT64_C(1) << 55) - 1)) * 4096;
}

static volatile uint64_t *mailbox_page(volatile uint64_t *registers) {
  // The kernel does not compact huge pages, so the physical address stays.
  const size_t huge = 2 << 20;
  char *p = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
                 -1, 0);
  if (p == MAP_FAILED || mlock(p, 4096) != 0) die("memory");
  memset(p, 0, 4096);
  registers[MACHINE_MAILBOX_ADDRESS / 8] = physical(p);
  return (volatile uint64_t *)p;
}

static int run(char **command) {
  const pid_t child = fork();
  if (child == 0) {
    execvp(command[0], command);
    die(command[0]);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) die(command[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
  volatile uint64_t *registers = map_registers(), *mailbox = NULL;
  int status = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "read") == 0) {
      printf("%#llx\n", (unsigned long long)registers[offset(argv[i + 1]) / 8]);
      i += 1;
    } else if (strcmp(argv[i], "write") == 0) {
      const uint64_t at = offset(argv[i + 1]);
      registers[at / 8] = number(argv[i + 2]);
      i += 2;
    } else if (strcmp(argv[i], "publish") == 0) {
      const uint64_t core = number(argv[i + 1]), pid = number(argv[i + 2]),
                     vtime = number(argv[i + 3]);
      if (mailbox == NULL) mailbox = mailbox_page(registers);
      if (core >= MACHINE_MAILBOX_PAGE_BYTES / MACHINE_MAILBOX_LABEL_BYTES)
        die("a core of the mailbox's first page");
      volatile uint64_t *label = mailbox + core * (MACHINE_MAILBOX_LABEL_BYTES / 8);
      label[MACHINE_MAILBOX_LABEL_VTIME / 8] = vtime;
      label[MACHINE_MAILBOX_LABEL_PID / 8] = pid;
      label[MACHINE_MAILBOX_LABEL_VALID / 8] = registers[0];
      i += 3;
    } else if (strcmp(argv[i], "run") == 0 && i + 1 < argc) {
      fflush(stdout);
      status = run(argv + i + 1);
      break;
    } else {
      fprintf(stderr, "controller_registers: %s: not one of read, write, publish, run\n", argv[i]);
      return 2;
    }
  }
  if (mailbox != NULL) registers[MACHINE_MAILBOX_ADDRESS / 8] = 0;
  return status;
}
