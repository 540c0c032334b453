# SPDX-License-Identifier: GPL-2.0-only
# 40 min of 4,100 threads and many other loads on four CPUs, on a host that two other processes keep busy: no stall and
# no event of the watchdog. EEVDF's stalls in 10 min of the same load stand beside it.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
load=()
for _ in 1 2; do
	(while :; do :; done) &
	load+=($!)
done
# shellcheck disable=SC2064  # these processes
trap "kill ${load[*]}" EXIT
vm --cpus 4 --timeout 1800 -- python3 -B tests/vm/guest/crowd.py none 600 > "$out/eevdf.txt"
tail -n 1 "$out/eevdf.txt"
vm --cpus 4 --timeout 5400 -- python3 -B tests/vm/guest/crowd.py "$bin/scx_drfq" 2400
kill "${load[@]}"
trap - EXIT
# Where the clock counts instructions no host makes packets longer, so the bounds of waits and rescues must hold.
vm --cpus 4 --clock icount --icount-shift 4 --timeout 7200 -- python3 -B tests/vm/guest/crowd.py "$bin/scx_drfq" \
	300 --bounds
