// SPDX-License-Identifier: GPL-2.0-only
// A program for perf stat, whose counts of it in user mode can be exact.
//
//   alone OP PASSES
//
// OP: read or write 16 MiB, twice the largest cache of our machines, so many times, or spin (a
// million rounds for each). It moves to CPU 3, has the machine write a line of truth, works, and
// has it write another one. There is no library: outside these two lines it runs the same few
// instructions every time, none of which touches memory, so that what perf counts of misses is
// what happened between the lines.
#include <stddef.h>
#include <stdint.h>

#include "machine.h"

enum { BYTES = 16 << 20, SPINS = 1000000 };

__asm__(
    ".globl _start\n"
    "_start:\n"
    "  mov $203, %eax\n"  // sched_setaffinity(0, 8, &cpu)
    "  xor %edi, %edi\n"
    "  mov $8, %esi\n"
    "  lea cpu(%rip), %rdx\n"
    "  syscall\n"
    "  mov $0x40d0d0d1, %eax\n"  // MACHINE_REPORT
    "  cpuid\n"
    "  mov %rsp, %rdi\n"
    "  and $-16, %rsp\n"
    "  call work\n"
    "  mov $0x40d0d0d1, %eax\n"
    "  cpuid\n"
    "  mov $60, %eax\n"  // exit(0)
    "  xor %edi, %edi\n"
    "  syscall\n"
    ".section .rodata\n"
    "cpu: .quad 1 << 3\n"
    ".text\n");
_Static_assert(MACHINE_REPORT == 0x40d0d0d1u, "the leaf above");

static volatile uint64_t memory[BYTES / sizeof(uint64_t)];

// stack: as the kernel hands it over: the number of arguments, and then these.
__attribute__((used)) static void work(char *const *stack) {
  if ((uintptr_t)stack[0] != 3) return;
  const char *op = stack[2];
  unsigned passes = 0;
  for (const char *c = stack[3]; *c >= '0' && *c <= '9'; c++)
    passes = passes * 10 + (unsigned)(*c - '0');
  // Pages that were only read are all the same one.
  if (op[0] == 'r' && passes != 0)
    for (size_t i = 0; i < BYTES / sizeof *memory; i += 4096 / sizeof *memory) memory[i] = 1;
  for (unsigned pass = 0; pass < passes; pass++) {
    if (op[0] == 's') {
      for (unsigned i = 0; i < SPINS; i++) __asm__ volatile("");
    } else if (op[0] == 'w') {
      for (size_t i = 0; i < BYTES / sizeof *memory; i += 8) memory[i] = i;
    } else {
      for (size_t i = 0; i < BYTES / sizeof *memory; i += 8) (void)memory[i];
    }
  }
}
