# SPDX-License-Identifier: GPL-2.0-only
# A group's traffic is read right while a counter of 24 bits wraps.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine thesis --machine-stats "$out/truth.jsonl" --machine-interval 1000000000 -- \
	bash tests/vm/guest/resctrl.sh "$bin/drfq-resctrl-check" wrap \
	> "$out/measured"
python3 -B tests/vm/resctrl.py "$out/measured" "$out/truth.jsonl" 1
