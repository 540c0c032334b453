# SPDX-License-Identifier: GPL-2.0-only
# 1,000 cycles of loading and unloading leave no BPF object and no kernel memory, on both kernels.
# The VM has one CPU: each cycle rewrites kernel code, and one CPU makes the cycles the same every time.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --cpus 1 --kernel "$kernel" -- "$exp" cycles 1000 --out "$out"
done
