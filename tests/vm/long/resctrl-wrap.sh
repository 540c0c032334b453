# SPDX-License-Identifier: GPL-2.0-only
# A group's traffic is read right while a counter of 24 bits wraps: after 1 GiB where it counts lines, and where it
# counts units of 2 KiB and starts 64 MiB below its wrap.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh

# Moves so much on a machine: wrap NAME MACHINE MIB
wrap() {
	vm --machine "$2" --machine-stats "$out/$1.truth" --machine-interval 1000000000 -- \
		bash tests/vm/guest/resctrl.sh "$bin/drfq-resctrl-check" wrap "$3" > "$out/$1.measured"
	python3 -B tests/vm/resctrl.py "$out/$1.measured" "$out/$1.truth" 1
}

sed 's/^upscale = .*/&\ncounter_start = 16744448/' vm/machines/scarce.toml > "$out/scarce.toml"
wrap scarce "$out/scarce.toml" 192
wrap thesis thesis 1152
