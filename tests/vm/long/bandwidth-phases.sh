# SPDX-License-Identifier: GPL-2.0-only
# A minute in which the last of four hogs stops for 3 s of each 6 s: shares by cpu.weight in the last second of a phase.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
find_provenance
rm -f "$out/truth" "$out/rows.csv"
vm --machine xeon --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/bandwidth_shares.py \
	"$bin/scx_drfq" 60 copy:300,copy:400,copy:500,copy:600 phases > "$out/log"
status=0
# docs/results/bandwidth.md has the phases that are worse than 5 %.
tests/vm/bandwidth_shares "$out/log" "$out/truth" --spread 3 --worst 5 --missed phases worst 20 \
	--rows "$out/rows.csv" "${provenance[@]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
