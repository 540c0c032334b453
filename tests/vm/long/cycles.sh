# SPDX-License-Identifier: GPL-2.0-only
# 1,000 cycles of loading and unloading leave no BPF object and no kernel memory, on both kernels.
# The VM has one CPU: each cycle rewrites kernel code, of which QEMU may run a stale translation on another CPU.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --cpus 1 --kernel "$kernel" -- "$exp" cycles 1000 --out "$out"
done
