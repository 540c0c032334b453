# SPDX-License-Identifier: GPL-2.0-only
# A configuration file gives weights by command and by cgroup; SIGHUP changes rules and nothing else. Neither a full
# disk behind standard output nor a dying client ends the scheduler.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 -- python3 -B tests/vm/guest/rules.py "$bin/scx_drfq"
