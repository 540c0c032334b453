# SPDX-License-Identifier: GPL-2.0-only
# Set 1 of the thesis in full: mbw of different cpu.weight under default options on the machine lvtf, alone in five
# windows, and beside other loads in one; and four ratios with copied labels. DRFQ_CASES names other cases, as
# tests/vm/guest/set_one.py wants them, and DRFQ_LABELS the kinds of labels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
ratios=(1:1 1:2 2:3 3:4 1:4 1:16)
# At 1:100, the heavy mbw is always first: that is what it can take beside another one.
cases_switch=(alone=1 "${ratios[@]/%/=5}" 1:100=5 1:1:3=5)
for beside in spinner "2 spinners" light sleeper phases crowd; do
	cases_switch+=("${ratios[@]/%/+$beside=1}")
done
copied=("${ratios[@]:0:4}")
# shellcheck disable=SC2034  # by name
cases_copied=(alone=1 "${copied[@]/%/=5}")
status=0
SHARES_TIMEOUT_S=10000
for labels in ${DRFQ_LABELS:-switch copied}; do
	declare -n cases=cases_$labels
	[[ -z ${DRFQ_CASES-} ]] || IFS=, read -ra cases <<< "$DRFQ_CASES"
	share_between_mbw "$labels" "${cases[@]}" || status=1
	[[ ! -s $out/$labels.csv ]] || tools/results --add "$out/$labels.csv"
done
exit "$status"
