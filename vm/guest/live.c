// SPDX-License-Identifier: GPL-2.0-only
// Makes the machine live: run once in the guest, as root, before what is to be
// measured. Says nothing when all is well.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "machine.h"

// Where the memory of the controller's device is, 0 if there is no such device. Turns it on.
static uint64_t controller_address(void) {
  char device[256], path[512];
  if (machine_find_controller(device, sizeof device) != 0) return 0;
  snprintf(path, sizeof path, "%s/enable", device);
  FILE *f = fopen(path, "w");
  if (f != NULL) {
    fputs("1", f);
    fclose(f);
  }
  snprintf(path, sizeof path, "%s/resource", device);
  f = fopen(path, "r");
  if (f == NULL) return 0;
  uint64_t start = 0, end, flags;
  for (int bar = 0; bar <= MACHINE_CONTROLLER_BAR; bar++)
    if (fscanf(f, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3) start = 0;
  fclose(f);
  return start;
}

int main(void) {
  int live;
  if (!machine_ask(MACHINE_LIVE, controller_address(), &live)) {
    fprintf(stderr, "live: this is no modelled machine; start it with: vm/vm run --machine NAME\n");
    return 1;
  }
  for (int i = 0; i < 1000 && !live; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    machine_ask(MACHINE_LIVE, 0, &live);
  }
  if (!live) fprintf(stderr, "live: the machine did not go live within a second\n");
  return !live;
}
