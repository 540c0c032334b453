# SPDX-License-Identifier: GPL-2.0-only
# Crowds on one CPU, nested cgroups, changes of running tasks, other policies, real-time tasks, partitions, a second
# agent and partial mode, on both kernels, by the kernel's own count. The clock counts instructions.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --cpus 2 --clock icount --icount-shift 4 -- python3 -B tests/vm/guest/corners.py \
		"$bin/scx_drfq" "$bin/drfq-load" \
		crowd pinned nested changed policies real_time real_time_pair isolated_partition occupied partial
done
