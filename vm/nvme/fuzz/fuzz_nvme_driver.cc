// SPDX-License-Identifier: GPL-2.0-only
// A driver that does anything, in any order and with any value. A rule that the device breaks ends
// the process.
#include "hostile_driver.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  drfq::nvme::drive(data, size);
  return 0;
}
