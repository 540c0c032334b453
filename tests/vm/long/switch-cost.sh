# SPDX-License-Identifier: GPL-2.0-only
# Instructions that the BPF programs execute per packet, with 0, 1 and 2 events of memory traffic.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 --clock icount --icount-shift 0 -- python3 -B tests/vm/guest/switch_cost.py "$bin/scx_drfq"
