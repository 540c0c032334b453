# SPDX-License-Identifier: GPL-2.0-only
# Sets 2 and 3 of the thesis in a first form: mbw beside a reader of the disk under weights.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
status=0
share_with_a_disk 1:1 1:2 2:1 1:3 || status=$?
[[ ! -s $out/rows.csv ]] || tools/results --add "$out/rows.csv"
exit "$status"
