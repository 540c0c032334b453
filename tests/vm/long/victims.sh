# SPDX-License-Identifier: GPL-2.0-only
# A pointer chaser and lbm beside 1 to 3 memory hogs on the modelled Xeon: under EEVDF, beside hogs that are limited to
# their fair shares, and under scx_drfq. $DRFQ_RUNS is how often each case runs (default: 3), $DRFQ_CASES the cases.
# With --resume, boots that have run with the same tree, cases and runs are not repeated.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
read -ra cases <<< "${DRFQ_CASES:-chase:0 lbm:0 chase:1 lbm:1 chase:2 lbm:2 chase:3 lbm:3}"

find_provenance
rm -f "$out/rows.csv"

# Boots a machine, and runs cases there as often as asked for: boot NAME PLAN CASE ...
boot() {
	local name=$1 plan=$2 all=() case number
	shift 2
	for case in "$@"; do
		for ((number = 0; number < ${DRFQ_RUNS:-3}; number++)); do all+=("$case"); done
	done
	boot_is_done "$name" "$plan" "${all[@]}" && return
	say "$name: ${all[*]}"
	rm -f "$out/$name.truth"
	# No line of ground truth but those that are asked for.
	vm --kernel newest --machine xeon --machine-stats "$out/$name.truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/victims.py \
		"$plan" "$bin/scx_drfq" "$bin/drfq-load" "${all[@]}" > "$out/$name.json"
	finish_boot "$name"
}

boot eevdf eevdf "${cases[@]}"
python3 -B tests/vm/victims.py limits "$out" eevdf > "$out/limits"
mapfile -t limited < "$out/limits"
boot limited eevdf "${limited[@]}"
boot mba mba "${cases[@]}"
boot default default "${cases[@]}"
status=0
python3 -B tests/vm/victims.py report "$out" "$out/rows.csv" "${provenance[1]}" "${provenance[3]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
