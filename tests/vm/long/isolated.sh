# SPDX-License-Identifier: GPL-2.0-only
# A CPU that the kernel isolates (isolcpus) runs what is pinned to it, and nothing else.
# It has not run through yet.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --cpus 2 --kernel-option isolcpus=1 --clock icount --icount-shift 4 -- python3 -B \
		tests/vm/guest/corners.py "$bin/scx_drfq" "$bin/drfq-load" isolated_cpu
done
