# SPDX-License-Identifier: GPL-2.0-only
# What tasks are charged against what the machine counts, on three machines: by the events of the CPU model, and by LLC
# misses; on xeon also while scx_drfq monitors the tasks. On thesis also what two streams are charged that take turns of
# 1 ms on a CPU, and the shares of mbw beside four spinners, and beside four sjeng. $DRFQ_LOADS has other loads for
# thesis by the events of the model, and nothing else.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
[[ -x /usr/games/sjeng ]] || fail "sjeng is missing; run tools/setup"
status=0
streams=read@0,copy@1,write@2,nt@3
turns=read@0,write@0
for machine in thesis xeon laptop; do
	for events in auto cache-misses mbm; do
		name=$machine-$events
		[[ $events != mbm || $machine = xeon ]] || continue
		loads=("$streams" "$streams" "$streams" "$streams" "$streams")
		[[ $name != thesis-auto ]] || loads+=("$turns" "$turns" "$turns" "$turns" "$turns")
		[[ $machine != thesis ]] || loads+=(mbw mbw mbw mbw mbw sjeng sjeng sjeng sjeng sjeng)
		if [[ -n ${DRFQ_LOADS-} ]]; then
			[[ $name = thesis-auto ]] || continue
			read -ra loads <<< "$DRFQ_LOADS"
		fi
		seconds=2
		case $name in
			# LLC misses charge too little, as docs/results/traffic.md tells. A laptop has no other event.
			*-cache-misses | laptop-auto) bounds=() ;;
			thesis-auto) seconds=5 bounds=(--within 2 --turns 5 --equal 2) ;;
			# The events leave out non-temporal stores, which bypass these caches.
			xeon-auto) bounds=(--within 2 --except nt) ;;
			xeon-mbm) seconds=5 bounds=(--within 5) ;;
		esac
		echo "$machine, --perf-event $events"
		vm --machine "$machine" --machine-stats "$out/$name.truth" --machine-interval 1000000000 -- \
			env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/traffic.py \
			"$bin/scx_drfq" "$events" "$seconds" "${loads[@]}" > "$out/$name.charged"
		python3 -B tests/vm/traffic.py "$out/$name.charged" "$out/$name.truth" "${bounds[@]}" || status=1
	done
done
exit "$status"
