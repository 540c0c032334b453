# SPDX-License-Identifier: GPL-2.0-only
# Every view and key of `scx_drfq top` on a pseudo-terminal, and `scx_drfq explain`, on both kernels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --cpus 2 --timeout 1200 -- python3 -B tests/vm/guest/top.py "$bin/scx_drfq"
done
