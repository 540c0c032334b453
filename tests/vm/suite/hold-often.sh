# SPDX-License-Identifier: GPL-2.0-only
# Tens of tasks are held while other CPUs read the held queue, and every one runs again when V releases it.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 4 --disk 64M -- "$exp" with-scheduler --out "$out" --arg=--memory-bandwidth --arg=1M \
	--arg=--hold-slices --arg=0 --arg=--slice-us --arg=1000 -- \
	bash tests/vm/guest/hold-often.sh "$bin/drfq-load" 300 | tee "$out/held.txt"

# A count in the statistics: counted NAME
counted() { grep -o "\"$1\":[0-9]*" "$out/held.txt" | cut -d: -f2; }

held=$(counted held) || fail "the statistics tell no holds"
# How many of the reads find a busy CPU depends on the host.
((held >= 20)) || fail "$held of 300 reads were held; 20 are wanted"
# Dispatches release a task as soon as V allows it: 108 of 108 in a run. If they did not, the timer would release each
# at its bound, because the hogs leave no CPU idle.
released=$(counted released_vtime)
((released * 10 >= held * 9)) || fail "V released $released of $held held tasks, the bound $(counted released_bound)"
