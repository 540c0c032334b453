# SPDX-License-Identifier: GPL-2.0-only
# The scheduler survives 10 min of stress-ng on both kernels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --cpus 2 --kernel "$kernel" -- "$exp" with-scheduler --out "$out" -- bash tests/vm/guest/stress.sh 600
done
