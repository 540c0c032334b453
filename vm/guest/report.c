// SPDX-License-Identifier: GPL-2.0-only
// Has the machine write a line of truth now.
#include "machine.h"

int main(void) {
  int live;
  return !(machine_ask(MACHINE_REPORT, 0, &live) && live);
}
