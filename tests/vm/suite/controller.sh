# SPDX-License-Identifier: GPL-2.0-only
# The agent drives one drfq-mc and asks another: traffic is charged to who runs, and either side may be killed.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
mc=${bin%/release}/gem5-backend/drfq-mc
[[ -x $mc ]] || fail "$mc is not built; run: just test-cpp"
vm --cpus 2 -- python3 -B tests/vm/guest/controller.py "$bin/scx_drfq" "$mc"
