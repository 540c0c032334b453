#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What the suite tests on the newest kernel alone, on the oldest one. The long form of limits has both.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for name in agent-answers resctrl rules; do
	DRFQ_TEST_KERNELS=oldest bash "tests/vm/suite/$name.sh"
done
