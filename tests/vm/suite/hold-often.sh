# SPDX-License-Identifier: GPL-2.0-only
# Hundreds of holds, each at the moment when other CPUs look at the held queue: none is forgotten.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 4 --disk 64M -- "$exp" under --out "$out" --arg=--memory-bandwidth --arg=1M --arg=--hold-slices --arg=0 \
	--arg=--slice-us --arg=1000 -- bash tests/vm/guest/hold-often.sh "$bin/drfq-load" 300
