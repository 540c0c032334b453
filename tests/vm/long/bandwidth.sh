# SPDX-License-Identifier: GPL-2.0-only
# Four hogs share the modelled Xeon's memory by cpu.weight, by the machine's own count; a killed agent leaves nothing.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers scx_layered
find_provenance
rm -f "$out/truth" "$out/rows.csv"
# The lowest level leaves a core an eighth of the memory. These weights ask for a sixth to a third.
loads=copy:300,copy:400,copy:500,copy:600
vm --machine xeon --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$cache/peers/bin:$PATH" python3 -B tests/vm/guest/bandwidth_shares.py \
	"$bin/scx_drfq" 5 "$loads" eevdf kp static mba_MBps layered off hold killed > "$out/log"
status=0
# Without throttling the hogs share alike, which is a spread of 100 %. What is missed, docs/results/bandwidth.md tells.
tests/vm/bandwidth_shares "$out/log" "$out/truth" --spread 3 --worst 5 --total 95 --settling 5 \
	--missed killed worst 10 --missed killed total 93 --missed hold total 93 \
	--rows "$out/rows.csv" "${provenance[@]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
