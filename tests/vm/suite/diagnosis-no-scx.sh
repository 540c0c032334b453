# SPDX-License-Identifier: GPL-2.0-only
# A kernel without sched_ext gets a plain diagnosis.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --kernel no-scx -- bash tests/vm/guest/diagnosis.sh "$bin/scx_drfq" 'has no sched_ext'
