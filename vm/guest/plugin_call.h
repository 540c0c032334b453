/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls from guest programs to the QEMU plugin. They use CPUID leaves, so they work in user mode
 * and need no driver. */
#ifndef DRFQ_GUEST_PLUGIN_CALL_H
#define DRFQ_GUEST_PLUGIN_CALL_H

#include <stdint.h>

#include "plugin_call_leaves.h"

/* Calls the plugin by this leaf. Returns whether the plugin answered. *live: whether simulated time
 * runs. */
static inline int plugin_call(uint32_t leaf, uint64_t argument, int *live) {
  uint64_t a = leaf, b, c = argument, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
  *live = (int)a;
  return (uint32_t)b == PLUGIN_CALL_ANSWER;
}

/* Requests a line of ground truth. Returns whether simulated time runs; otherwise nothing is
 * written.
 */
static inline int request_ground_truth(void) {
  int live;
  return plugin_call(PLUGIN_CALL_GROUND_TRUTH, 0, &live) && live;
}

#endif
