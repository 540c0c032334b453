# SPDX-License-Identifier: GPL-2.0-only
# Set 1 of the thesis: two mbw of different weights on the machine lvtf.
# The words of $DRFQ_MBW_ARGS are further options of the scheduler.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
# shellcheck disable=SC2086  # words
vm --kernel newest --machine lvtf --machine-stats "$out/ground-truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/mbw.py "$bin/scx_drfq" ${DRFQ_MBW_ARGS-}
find_provenance
python3 -B tests/vm/mbw_shares.py "$out/ground-truth" "$out/rows.csv" "${provenance[1]}" "${provenance[3]}"
tools/results --add "$out/rows.csv"
