# SPDX-License-Identifier: GPL-2.0-only
# Without options, memory is charged by an estimate, and after `calibrate` by what was measured.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine thesis --machine-stats "$out/truth" -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/calibrate.py "$bin/scx_drfq" 2 > "$out/measured"
python3 -B tests/vm/calibration.py "$out/measured" "$out/truth" --within 5
