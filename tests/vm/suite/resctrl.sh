# SPDX-License-Identifier: GPL-2.0-only
# Our resctrl groups on a machine with 4 RMIDs and 3 classes: traffic against the machine's own account, SIGKILL,
# groups of another program, ids that run out, unmounting underneath.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in ${DRFQ_TEST_KERNELS:-newest}; do
	vm --kernel "$kernel" --machine scarce --machine-stats "$out/$kernel.jsonl" --machine-interval 1000000000 -- \
		bash tests/vm/guest/resctrl.sh "$bin/drfq-resctrl-check" run \
		> "$out/$kernel.measured"
	python3 -B tests/vm/resctrl.py "$out/$kernel.measured" "$out/$kernel.jsonl" 40
done
