# SPDX-License-Identifier: GPL-2.0-only
# An event that the machine's PMU accepts and never counts is reported once.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine laptop -- python3 -B tests/vm/guest/silent_counter.py "$bin/scx_drfq"
