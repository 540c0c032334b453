# SPDX-License-Identifier: GPL-2.0-only
# Two last-level caches: weights hold across them, none idles, and sets of CPUs within or across them keep their shares.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --cpus 4 --llcs 2 --clock icount --icount-shift 4 -- python3 -B \
		tests/vm/guest/corners.py "$bin/scx_drfq" "$bin/drfq-load" llcs full_llc crossing sync_pairs
done
