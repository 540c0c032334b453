# SPDX-License-Identifier: GPL-2.0-only
# Set 1 of the thesis in full: mbw of different cpu.weight under default options on the machine lvtf, alone in five
# windows, and beside other loads in one. DRFQ_CASES names other cases, as tests/vm/guest/set_one.py wants them.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
ratios=(1:1 1:2 2:3 3:4 1:4 1:16)
cases=(alone=1 "${ratios[@]/%/=5}" 1:1:3=5)
for beside in spinner "2 spinners" light sleeper phases crowd; do
	cases+=("${ratios[@]/%/+$beside=1}")
done
[[ -z ${DRFQ_CASES-} ]] || IFS=, read -ra cases <<< "$DRFQ_CASES"
rm -f "$out/truth"
vm --timeout 10000 --kernel newest --machine lvtf --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/set_one.py \
	"$bin/scx_drfq" "$bin/drfq-load" "${cases[@]}" > "$out/log"
find_provenance
python3 -B tests/vm/set_one.py "$out/log" "$out/truth" "$out/rows.csv" "${provenance[1]}" "${provenance[3]}"
tools/results --add "$out/rows.csv"
