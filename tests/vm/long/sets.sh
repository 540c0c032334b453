# SPDX-License-Identifier: GPL-2.0-only
# Sets 2 to 11 of the thesis, and two where nothing is contended, with real programs on the machine disk: under EEVDF,
# with fio limited to its fair share, and under scx_drfq with and without a controller that it drives. The controller
# has the thesis' rules in the boot "controller", and those that docs/results/controller-design.md recommends in the
# boot "share". $DRFQ_SETS has the sets (default: all), $DRFQ_BOOTS the boots, and $DRFQ_RULES the rules of scx_drfq.
# $DRFQ_RUNS says how often each set runs (default: once), and $DRFQ_WEIGHTS which weights the foreground process has.
# With --resume, boots that have run with the same tree and the same sets, runs, rules and weights are not repeated.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for program in mbw fio /usr/games/sjeng; do
	command -v "$program" > /dev/null || fail "$program is missing; run tools/setup"
done
read -ra sets <<< "${DRFQ_SETS:-2 3 4 5 6 7 8 9 10 11 uncontended random-reads}"
read -ra boots <<< "${DRFQ_BOOTS:-eevdf limited eevdf-1 controller share commodity}"

find_provenance
rm -f "$out/rows.csv"

# Boots a machine, and runs sets there: boot NAME PLAN SED SET ... Adds BOOT=SET,SET to `wanted`.
wanted=()
boot() {
	local name=$1 plan=$2 machine=$out/$1.toml
	sed "$3" vm/machines/disk.toml > "$machine"
	shift 3
	(($#)) || return 0
	# Without the rates that fio is limited to.
	wanted+=("$name=$(IFS=, && echo "${*%%=*}")")
	boot_is_done "$name" "$plan" "$(< "$machine")" "${DRFQ_RULES-}" "${DRFQ_RUNS-}" "${DRFQ_WEIGHTS-}" "$@" &&
		return
	say "$name: sets $*"
	rm -f "$out/$name.truth"
	vm --kernel newest --machine "$machine" --machine-stats "$out/$name.truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$PATH" "DRFQ_RULES=${DRFQ_RULES-}" \
		"DRFQ_RUNS=${DRFQ_RUNS-}" "DRFQ_WEIGHTS=${DRFQ_WEIGHTS-}" python3 -B tests/vm/guest/sets.py \
		tools/sets.toml "$plan" "$bin/scx_drfq" "$bin/drfq-load" "$@" > "$out/$name.json"
	finish_boot "$name"
}

# The policy of the controller.
lvtf='policy = "lvtf"'

# The sets that have a fixed amount of work.
timed=()
for number in "${sets[@]}"; do
	[[ ! $number =~ ^([6-9]|1[01])$ ]] || timed+=("$number")
done
for name in "${boots[@]}"; do
	case $name in
		eevdf) boot eevdf eevdf '' "${sets[@]}" ;;
		eevdf-1) boot eevdf-1 eevdf 's/^policy = .*/&\ndrain_min_reads = 1/' "${timed[@]}" ;;
		limited)
			python3 -B tests/vm/sets.py limits tools/sets.toml "$out" eevdf > "$out/limits"
			mapfile -t limits < "$out/limits"
			boot limited limited '' "${limits[@]}"
			;;
		controller) boot controller controller "s/^policy = .*/$lvtf/" "${sets[@]}" ;;
		share)
			DRFQ_RULES=${DRFQ_RULES:-default} \
				boot share controller "s/^policy = .*/$lvtf\\n$recommended/" "${sets[@]}"
			;;
		commodity) boot commodity commodity '' "${sets[@]}" ;;
		*) fail "DRFQ_BOOTS: unknown boot $name" ;;
	esac
done
status=0
python3 -B tests/vm/sets.py report tools/sets.toml "$out" "$out/rows.csv" \
	"${provenance[1]}" "${provenance[3]}" "${wanted[@]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
