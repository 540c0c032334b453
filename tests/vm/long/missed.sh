# SPDX-License-Identifier: GPL-2.0-only
# Programs whose write-backs no event tells of pay for them, if a controller counts them (decision 102).
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
machine=$out/machine.toml
sed "s/^policy = .*/policy = \"lvtf\"\n$recommended/" vm/machines/disk.toml > "$machine"
find_provenance
rm -f "$out/truth" "$out/rows.csv"
vm --machine "$machine" --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/missed.py "$bin/scx_drfq" "$bin/drfq-load" \
	> "$out/log"
status=0
python3 -B tests/vm/missed.py "$out/log" "$out/truth" "$out/rows.csv" "${provenance[1]}" "${provenance[3]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
