# SPDX-License-Identifier: GPL-2.0-only
# Four hogs share the modelled Xeon's memory by cpu.weight, by the machine's own count; a killed agent leaves nothing.
# The first boot has DRFQ_MODES, by default all peers; the others, DRFQ_RUNS in all, have EEVDF and ours.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
find_provenance
rm -f "$out/rows.csv"
read -ra modes <<< "${DRFQ_MODES:-eevdf kp static mba_MBps layered off hold killed}"
[[ ${modes[*]} != *layered* ]] || tools/peers scx_layered
boots=()
for boot in $(seq "${DRFQ_RUNS:-5}"); do
	say "boot $boot of ${DRFQ_RUNS:-5}"
	boots+=("$out/$boot.log" "$out/$boot.truth")
	rm -f "$out/$boot.truth"
	# The lowest level leaves a core an eighth of the memory. These weights ask for a sixth to a third.
	vm --machine xeon --machine-stats "$out/$boot.truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$cache/peers/bin:$PATH" python3 -B tests/vm/guest/bandwidth_shares.py \
		"$bin/scx_drfq" 5 copy:300,copy:400,copy:500,copy:600 "${modes[@]}" > "$out/$boot.log"
	modes=(eevdf killed)
done
status=0
# Without throttling the hogs share alike, which is a spread of 100 %. What is missed, docs/results/bandwidth.md tells.
tests/vm/bandwidth_shares "${boots[@]}" --spread 3 --worst 5 --total 95 --settling 2 \
	--missed killed worst 10 --missed killed total 93 --missed hold total 93 \
	--rows "$out/rows.csv" "${provenance[@]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
