# SPDX-License-Identifier: GPL-2.0-only
# The agent gets its budget beside hogs of nice -20. No kernel warns of a deprecated callback.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in ${DRFQ_TEST_KERNELS:-newest}; do
	vm --kernel "$kernel" --cpus 2 --clock icount -- python3 -B tests/vm/guest/agent-answers.py "$bin/scx_drfq"
done
