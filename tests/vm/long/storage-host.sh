# SPDX-License-Identifier: GPL-2.0-only
# The modelled disk's rates, by its own log, are the same on an idle and on a busy host. The host is idle and busy by
# turns within one boot, for rates also depend on where the guest's pages lie, which differs between boots.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
turn_s=1
rm -f "$out/log.csv" "$out/hosts.csv"
vm --machine disk --storage-log "$out/log.csv" -- python3 -B tests/vm/guest/storage.py rates &
machine=$!
note() { [[ ! -e $out/log.csv ]] || echo "$(wc -l < "$out/log.csv"),$1" >> "$out/hosts.csv"; }
load=()
trap '[[ ${#load[@]} -eq 0 ]] || kill "${load[@]}"' EXIT
while kill -0 "$machine" 2> /dev/null; do
	note idle
	sleep "$turn_s"
	for ((i = 0; i < 2 * $(nproc); i++)); do
		(while :; do :; done) &
		load+=($!)
	done
	note busy
	sleep "$turn_s"
	kill "${load[@]}"
	load=()
done
wait "$machine"
python3 -B tests/vm/storage.py rates "$out/log.csv" "$out/hosts.csv"
