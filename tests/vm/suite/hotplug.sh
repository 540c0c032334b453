# SPDX-License-Identifier: GPL-2.0-only
# When a CPU goes offline or online, the scheduler loads again with the CPUs that are online, and no debt is forgiven.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in ${DRFQ_TEST_KERNELS:-newest}; do
	vm --kernel "$kernel" --cpus 2 -- python3 -B tests/vm/guest/hotplug.py "$bin/scx_drfq" "$bin/drfq-load"
done
