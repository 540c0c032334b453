# SPDX-License-Identifier: GPL-2.0-only
# 10 min of all ways to read and write disks, on both kernels: no event of the watchdog, and the scheduler's count of
# bytes is the kernel's.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for program in fio stress-ng mkfs.ext4; do
	command -v "$program" > /dev/null || fail "$program is missing; run tools/setup"
done
for kernel in oldest newest; do
	vm --kernel "$kernel" --disk 64M --disk 256M -- python3 -B tests/vm/guest/io_stress.py "$bin/scx_drfq" 600
done
