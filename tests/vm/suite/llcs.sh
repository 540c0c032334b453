# SPDX-License-Identifier: GPL-2.0-only
# Two last-level caches: tasks that may use one of them keep their shares, also beside pairs that wake each other, and
# free ones use the other.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 4 --llcs 2 --clock icount --icount-shift 4 -- python3 -B \
	tests/vm/guest/corners.py "$bin/scx_drfq" "$bin/drfq-load" full_llc sync_pairs
