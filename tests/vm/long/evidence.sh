#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# `scx_drfq evidence` on modelled machines: what it says against the machines' own account, and what it leaves. The rows
# go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
find_provenance
rm -f "$out/rows.csv"
status=0
for machine in ${DRFQ_TEST_MACHINES:-thesis xeon laptop}; do
	vm --machine "$machine" --machine-stats "$out/$machine.truth" -- \
		bash tests/vm/guest/evidence.sh "$bin/scx_drfq" 60 > "$out/$machine.json"
	echo "$machine"
	python3 -B tests/vm/evidence.py "$out/$machine.json" "$out/$machine.truth" "vm/machines/$machine.toml" \
		--rows "$out/rows.csv" --case "$machine" "${provenance[@]}" || status=1
done
tools/results --add "$out/rows.csv"
exit "$status"
