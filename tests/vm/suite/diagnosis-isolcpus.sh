# SPDX-License-Identifier: GPL-2.0-only
# A kernel that isolates a CPU, and so refuses sched_ext, gets a plain diagnosis.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --kernel-option isolcpus=1 -- bash tests/vm/guest/diagnosis.sh "$bin/scx_drfq" 'isolcpus=1'
