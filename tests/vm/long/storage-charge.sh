# SPDX-License-Identifier: GPL-2.0-only
# What the scheduler charges for reads and writes of the modelled disk, beside what the disk moved. What its submitter
# hands over itself must be exact. The other ways are measured only.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine disk --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/storage.py charge "$bin/scx_drfq" \
	> "$out/measured"
python3 -B tests/vm/storage.py charge "$out/measured" "$out/truth"
