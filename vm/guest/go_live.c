// SPDX-License-Identifier: GPL-2.0-only
// Starts simulated time: caches, memory contention and counters act from now on. The harness runs
// it in the guest, as root, before the command. Prints nothing on success.
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "controller_device.h"
#include "plugin_call.h"

// Enables the controller's PCI device and returns the guest-physical address of its BAR; 0 if there
// is no such device.
static uint64_t controller_address(void) {
  char device[256], path[512];
  if (find_controller_device(device, sizeof device) != 0) return 0;
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
  if (!plugin_call(PLUGIN_CALL_GO_LIVE, controller_address(), &live)) {
    fprintf(stderr,
            "go_live: this VM has no modelled hardware; start it with: vm/vm run --machine NAME\n");
    return 1;
  }
  for (int i = 0; i < 1000 && !live; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    plugin_call(PLUGIN_CALL_GO_LIVE, 0, &live);
  }
  if (!live)
    fprintf(stderr,
            "go_live: the plugin did not start simulated time within a second; try again\n");
  return !live;
}
