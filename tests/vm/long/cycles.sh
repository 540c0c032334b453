# SPDX-License-Identifier: GPL-2.0-only
# 1,000 load and unload cycles leave nothing behind, on both kernels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" -- "$exp" cycles 1000 --out "$out"
done
