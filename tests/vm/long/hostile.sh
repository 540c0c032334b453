# SPDX-License-Identifier: GPL-2.0-only
# Other programs take, edit, reset, remove and unmount what --mba on uses in resctrl: four hogs share by weight again
# after each, by the machine's own count, and the others' files stay as they are.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
guest=${DRFQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_drfq}/machine/guest
rm -f "$out/truth"
vm --machine xeon --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$guest:$PATH" python3 -B tests/vm/guest/hostile.py \
	"$bin/scx_drfq" 5 copy:300,copy:400,copy:500,copy:600 | tee "$out/log"
tests/vm/bandwidth_shares "$out/log" "$out/truth" --spread 5 --worst 10
