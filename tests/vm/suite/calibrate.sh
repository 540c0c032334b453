# SPDX-License-Identifier: GPL-2.0-only
# Without options, memory is charged by an estimate, and after `calibrate` by what was measured. An event that the PMU
# accepts and never counts is reported once.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
# shellcheck disable=SC2016  # the guest's shell expands it
vm --machine thesis --machine-stats "$out/truth" -- \
	env "PATH=$cache/machine/guest:$PATH" \
	bash -c 'python3 -B "$1/calibrate.py" "$2" 2 && python3 -B "$1/silent_counter.py" "$2"' \
	bash tests/vm/guest "$bin/scx_drfq" > "$out/measured"
python3 -B tests/vm/calibration.py "$out/measured" "$out/truth" --within 5
