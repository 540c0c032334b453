# SPDX-License-Identifier: GPL-2.0-only
# The scheduler survives 10 min of stress-ng on both kernels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	stress_for 600 "$kernel"
done
