/* SPDX-License-Identifier: GPL-2.0-only */
/* How programs in the guest talk to the machine. docs/reference/registers.md */
#ifndef DRFQ_GUEST_MACHINE_H
#define DRFQ_GUEST_MACHINE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_LIVE 0x40d0d0d0u   /* CPUID leaf: simulate time from now on */
#define MACHINE_REPORT 0x40d0d0d1u /* CPUID leaf: write a line of truth to --machine-stats now */
#define MACHINE_ANSWER 0x71667264u /* "drfq" */

/* The memory controller's registers: MACHINE_CONTROLLER_* name a BAR of a PCI device in the guest,
 * MACHINE_MAILBOX_* the mailbox page. gem5-backend/interface/registers.toml */
#include "generated/machine_registers.h"

/* Whether there is a machine that understands the leaf; *live: whether its time is simulated. */
static inline int machine_ask(uint32_t leaf, uint64_t argument, int *live) {
  uint64_t a = leaf, b, c = argument, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
  *live = (int)a;
  return (uint32_t)b == MACHINE_ANSWER;
}

static inline unsigned machine_sysfs_number(const char *device, const char *name) {
  char path[512];
  unsigned value = 0;
  snprintf(path, sizeof path, "%s/%s", device, name);
  FILE *f = fopen(path, "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%x", &value) != 1) value = 0;
  fclose(f);
  return value;
}

/* Finds the controller's directory in sysfs; 0 on success. */
static inline int machine_find_controller(char *device, size_t size) {
  static const char devices[] = "/sys/bus/pci/devices";
  DIR *all = opendir(devices);
  if (all == NULL) return -1;
  for (struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
    snprintf(device, size, "%s/%.64s", devices, e->d_name);
    if (machine_sysfs_number(device, "vendor") != MACHINE_CONTROLLER_VENDOR ||
        machine_sysfs_number(device, "device") != MACHINE_CONTROLLER_DEVICE)
      continue;
    closedir(all);
    return 0;
  }
  closedir(all);
  return -1;
}

#endif
