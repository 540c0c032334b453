# SPDX-License-Identifier: GPL-2.0-only
# The agent drives one drfq-mc and asks another. Traffic is charged to the running task; either side may be killed.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
mc=$(gem5-backend/mc "$target/gem5-backend")
vm --cpus 2 -- python3 -B tests/vm/guest/controller.py "$bin/scx_drfq" "$mc"
