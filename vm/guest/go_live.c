// SPDX-License-Identifier: GPL-2.0-only
// Starts simulated time: caches, memory contention and counters act from now on. Then binds the
// modelled storage device, if there is one, to the kernel's driver: the device is absent before.
// The harness runs it in the guest, as root, before the command. Prints nothing on success.
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "controller_device.h"
#include "plugin_call.h"

#define NVME_CLASS 0x010802
#define STORAGE_DISK "/dev/nvme0n1"

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

// Writes the PCI address of the modelled storage device to *name. Returns 0, or -1 if there is
// none.
static int find_storage(char *name, size_t size) {
  DIR *all = opendir("/sys/bus/pci/devices");
  if (all == NULL) return -1;
  int found = -1;
  for (struct dirent *e = readdir(all); e != NULL && found != 0; e = readdir(all)) {
    char device[320];
    snprintf(device, sizeof device, "/sys/bus/pci/devices/%.64s", e->d_name);
    if (sysfs_number(device, "class") != NVME_CLASS) continue;
    snprintf(name, size, "%.64s", e->d_name);
    found = 0;
  }
  closedir(all);
  return found;
}

// Lets the kernel's driver find the storage device and waits for its disk. Returns 0 on success, or
// if there is no such device.
static int bind_storage(void) {
  char name[65];
  if (find_storage(name, sizeof name) != 0) return 0;
  FILE *f = fopen("/sys/bus/pci/drivers/nvme/bind", "w");
  if (f == NULL) {
    fprintf(stderr, "go_live: this kernel has no NVMe driver; its module nvme must be loaded\n");
    return -1;
  }
  fputs(name, f);
  if (fclose(f) != 0) {
    perror("go_live: the NVMe driver does not take the storage device");
    return -1;
  }
  for (int i = 0; i < 10000; i++) {
    if (access(STORAGE_DISK, F_OK) == 0) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  fprintf(stderr, "go_live: " STORAGE_DISK " did not appear within 10 s of the machine's time\n");
  return -1;
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
  return !live || bind_storage() != 0;
}
