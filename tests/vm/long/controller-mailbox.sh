# SPDX-License-Identifier: GPL-2.0-only
# CPUs label their traffic at each switch, so the controller charges each program's traffic to its own hardware id.
# Some 10 minutes for each kernel under TCG.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	truth=$out/ground-truth-$kernel
	vm --kernel "$kernel" --machine thesis --machine-stats "$truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/controller-mailbox.py "$bin/scx_drfq"
	python3 -B tests/vm/labels.py "$truth"
done
