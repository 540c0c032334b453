# SPDX-License-Identifier: GPL-2.0-only
# The scheduler survives 10 simulated min of stress-ng on each modelled machine, and charges what its caches missed.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
# Name and memory bandwidth.
for pair in thesis=266M xeon=872M laptop=800M; do
	machine=${pair%=*}
	# The file of ground truth shows the progress: a line for each simulated second.
	vm --machine "$machine" --machine-stats "$out/$machine.jsonl" --machine-interval 1000 --timeout 10800 -- \
		"$exp" with-scheduler --out "$out" --arg=--memory-bandwidth --arg="${pair#*=}" -- \
		bash tests/vm/guest/stress.sh 600
	tests/hardware/run --machine "$machine" scheduler
done
