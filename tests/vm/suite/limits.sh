# SPDX-License-Identifier: GPL-2.0-only
# cpu.max of cgroups, by the kernel's cpu.stat. The long form adds cpu.idle, short periods, and the oldest kernel, which
# does not report them, so doctor says so.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in ${DRFQ_TEST_KERNELS:-newest}; do
	vm --kernel "$kernel" --cpus 2 --clock icount --icount-shift 4 -- \
		python3 -B tests/vm/guest/limits.py "$bin/scx_drfq" "$bin/drfq-load"
done
