// SPDX-License-Identifier: GPL-2.0-only
// A program to run under perf stat: perf's user-mode counts of it can be compared exactly with the
// ground truth.
//
//   perf_target OP PASSES
//
// OP: read or write 16 MiB (twice the largest shared cache of our machines) PASSES times, or spin
// (a million iterations each). The program moves to CPU 3, writes a line of ground truth, works,
// and writes another line. It links no library: outside the two lines it executes the same few
// instructions in every run, and they access no memory. Every miss that perf counts therefore
// happens between the two lines.
#include <stddef.h>
#include <stdint.h>

#include "plugin_call_leaves.h"

enum { BYTES = 16 << 20, SPINS = 1000000 };

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define REQUEST_GROUND_TRUTH "  mov $" STRING(PLUGIN_CALL_GROUND_TRUTH) ", %eax\n  cpuid\n"

__asm__(
    ".globl _start\n"
    "_start:\n"
    "  mov $203, %eax\n"  // sched_setaffinity(0, 8, &cpu)
    "  xor %edi, %edi\n"
    "  mov $8, %esi\n"
    "  lea cpu(%rip), %rdx\n"
    "  syscall\n"  //
    REQUEST_GROUND_TRUTH
    "  mov %rsp, %rdi\n"
    "  and $-16, %rsp\n"
    "  call work\n"  //
    REQUEST_GROUND_TRUTH
    "  mov $60, %eax\n"  // exit(0)
    "  xor %edi, %edi\n"
    "  syscall\n"
    ".section .rodata\n"
    "cpu: .quad 1 << 3\n"
    ".text\n");

static volatile uint64_t memory[BYTES / sizeof(uint64_t)];

// stack: the initial stack as the kernel sets it up, the argument count and then the arguments.
__attribute__((used)) static void work(char *const *stack) {
  if ((uintptr_t)stack[0] != 3) return;
  const char *op = stack[2];
  unsigned passes = 0;
  for (const char *c = stack[3]; *c >= '0' && *c <= '9'; c++)
    passes = passes * 10 + (unsigned)(*c - '0');
  // Without a write all pages would map to the kernel's one zero page.
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
