# SPDX-License-Identifier: GPL-2.0-only
# What the scheduler charges for reads and writes of the modelled disk, beside what the disk moved. What its submitter
# hands over itself must be exact. What a kernel thread writes out must be charged to the task that dirtied it.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mkfs.ext4 > /dev/null || fail "mkfs.ext4 is missing; install Debian's package e2fsprogs"
find_provenance
rm -f "$out/truth" "$out/rows.csv"
vm --machine disk --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/storage.py charge "$bin/scx_drfq" \
	> "$out/measured"
status=0
python3 -B tests/vm/storage.py charge "$out/measured" "$out/truth" "$out/rows.csv" \
	"${provenance[1]}" "${provenance[3]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
