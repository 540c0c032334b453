# SPDX-License-Identifier: GPL-2.0-only
# 1,000 load and unload cycles leave nothing behind, on both kernels. On one CPU: each cycle rewrites kernel code, and
# QEMU may run a stale translation of it on another CPU (a panic at an int3 that is no longer known, once in some 500
# cycles on two). The short form has two.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --cpus 1 --kernel "$kernel" -- "$exp" cycles 1000 --out "$out"
done
