# SPDX-License-Identifier: GPL-2.0-only
# Sets 2 and 3 of the thesis in a first form: mbw beside a reader of the disk under weights, on the machine disk whose
# controller serves by virtual time. The disk is fast enough to take all of the memory.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mbw > /dev/null || fail "mbw is missing; install Debian's package mbw"
machine=$out/lvtf.toml
sed 's/^policy = "frfcfs"/policy = "lvtf"/; s/^mb_per_s = .*/mb_per_s = 4000/' vm/machines/disk.toml > "$machine"
vm --kernel newest --machine "$machine" --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/storage.py shares "$bin/scx_drfq"
find_provenance
status=0
python3 -B tests/vm/storage.py shares "$out/truth" "$out/rows.csv" \
	"${provenance[1]}" "${provenance[3]}" || status=$?
tools/results --add "$out/rows.csv"
exit "$status"
