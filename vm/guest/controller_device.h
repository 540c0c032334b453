/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the PCI device whose BAR holds the memory controller's registers. */
#ifndef DRFQ_GUEST_CONTROLLER_DEVICE_H
#define DRFQ_GUEST_CONTROLLER_DEVICE_H

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>

/* MACHINE_CONTROLLER_*: the device and its BAR. MACHINE_MAILBOX_*: the mailbox.
 * From gem5-backend/interface/registers.toml. */
#include "generated/machine_registers.h"

/* Reads a hexadecimal number of a sysfs device; 0 if there is none. */
static inline unsigned sysfs_number(const char *device, const char *name) {
  char path[512];
  unsigned value = 0;
  snprintf(path, sizeof path, "%s/%s", device, name);
  FILE *f = fopen(path, "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%x", &value) != 1) value = 0;
  fclose(f);
  return value;
}

/* Writes the device's sysfs directory to *directory. Returns 0, or -1 if there is no such device.
 */
static inline int find_controller_device(char *directory, size_t size) {
  static const char devices[] = "/sys/bus/pci/devices";
  DIR *all = opendir(devices);
  if (all == NULL) return -1;
  int found = -1;
  for (struct dirent *e = readdir(all); e != NULL && found != 0; e = readdir(all)) {
    snprintf(directory, size, "%s/%.64s", devices, e->d_name);
    if (sysfs_number(directory, "vendor") == MACHINE_CONTROLLER_VENDOR &&
        sysfs_number(directory, "device") == MACHINE_CONTROLLER_DEVICE)
      found = 0;
  }
  closedir(all);
  return found;
}

#endif
