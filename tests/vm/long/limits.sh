# SPDX-License-Identifier: GPL-2.0-only
# cpu.max and cpu.idle of cgroups, by the kernel's cpu.stat; the oldest kernel does not report them, and doctor says so.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --cpus 2 --clock icount --icount-shift 4 -- \
		python3 -B tests/vm/guest/limits.py "$bin/scx_drfq" "$bin/drfq-load" long
done
