# SPDX-License-Identifier: GPL-2.0-only
# What network cards move is charged to the tasks that use the sockets. Two cards of the VM share a cable. Their own
# counters are the truth. Time counts instructions, so that a busy host moves no end of a measurement.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v iperf3 > /dev/null || fail "iperf3 is missing; run tools/setup"
two_cards
vm --clock icount "${cards[@]}" -- python3 -B tests/vm/guest/network.py "$bin/scx_drfq" > "$out/measured"
python3 -B tests/vm/network.py "$out/measured" newest
