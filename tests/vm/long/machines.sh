# SPDX-License-Identifier: GPL-2.0-only
# 10 min of stress-ng, in simulated time, on each of the modelled machines with their counters charged; then what is
# charged beside the misses of the machine.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
# Each with its memory's bandwidth.
for pair in thesis=266M xeon=872M laptop=800M; do
	machine=${pair%=*}
	# The truth grows by a line each simulated second: how far it is.
	vm --machine "$machine" --machine-stats "$out/$machine.jsonl" --machine-interval 1000 \
		--timeout 10800 -- \
		"$exp" under --out "$out" --arg=--memory-bandwidth --arg="${pair#*=}" -- bash tests/vm/guest/stress.sh 600
	tests/hardware/run --machine "$machine" scheduler
done
