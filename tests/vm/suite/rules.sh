# SPDX-License-Identifier: GPL-2.0-only
# A configuration file gives weights by command and by cgroup; SIGHUP changes rules and nothing else. Neither a full
# disk behind standard output nor a dying client ends the scheduler. The statistics' process has no privilege.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in ${DRFQ_TEST_KERNELS:-newest}; do
	vm --kernel "$kernel" --cpus 2 -- python3 -B tests/vm/guest/rules.py "$bin/scx_drfq"
done
