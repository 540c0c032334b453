# SPDX-License-Identifier: GPL-2.0-only
# Tens of tasks are held while other CPUs read the held queue, and every one runs again.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 4 --disk 64M -- "$exp" with-scheduler --out "$out" --arg=--memory-bandwidth --arg=1M \
	--arg=--hold-slices --arg=0 --arg=--slice-us --arg=1000 -- \
	bash tests/vm/guest/hold-often.sh "$bin/drfq-load" 300 | tee "$out/held.txt"
held=$(grep -o '"held":[0-9]*' "$out/held.txt" | cut -d: -f2) || fail "the statistics tell no holds"
# How many of the reads find a busy CPU depends on the host.
((held >= 20)) || fail "$held of 300 reads were held; 20 are wanted"
