# SPDX-License-Identifier: GPL-2.0-only
# What tasks are charged by two events of the CPU, against what the machine thesis counts: a reader, a copier and two
# writers at once. And mbw and four spinners get equal dominant shares. The agent answers up to 0.1 s after the machine
# has reported, so the windows are long.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
vm --machine thesis --machine-stats "$out/truth" --machine-interval 1000000000 -- \
	env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/traffic.py "$bin/scx_drfq" auto 5 \
	read@0,copy@1,write@2,nt@3 mbw > "$out/charged"
python3 -B tests/vm/traffic.py "$out/charged" "$out/truth" --within 2 --equal 3
