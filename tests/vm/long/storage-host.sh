# SPDX-License-Identifier: GPL-2.0-only
# The modelled disk's rates, by its own log, are the same on an idle and on a busy host.
# Medians and the 99th percentile are; rates of 4 KiB reads differ by up to 6 %, so that this fails.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for host in idle busy; do
	load=()
	if [[ $host = busy ]]; then
		for ((i = 0; i < 2 * $(nproc); i++)); do
			(while :; do :; done) &
			load+=($!)
		done
		# shellcheck disable=SC2064  # these processes
		trap "kill ${load[*]}" EXIT
	fi
	vm --machine disk --storage-log "$out/$host.csv" -- python3 -B tests/vm/guest/storage.py rates
done
python3 -B tests/vm/storage.py rates "$out/idle.csv" "$out/busy.csv"
