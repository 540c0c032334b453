# SPDX-License-Identifier: GPL-2.0-only
# The short form's measurement on the oldest and the newest kernel; the results become rows.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v iperf3 > /dev/null || fail "iperf3 is missing; run tools/setup"
find_provenance
two_cards
status=0
for kernel in oldest newest; do
	rm -f "$out/$kernel.csv"
	vm --kernel "$kernel" --clock icount "${cards[@]}" -- \
		python3 -B tests/vm/guest/network.py "$bin/scx_drfq" > "$out/$kernel"
	python3 -B tests/vm/network.py "$out/$kernel" "$kernel" "$out/$kernel.csv" \
		"${provenance[1]}" "${provenance[3]}" || status=1
	tools/results --add "$out/$kernel.csv"
done
exit "$status"
