# SPDX-License-Identifier: GPL-2.0-only
# Prometheus scrapes the agent for ten minutes, beside 1,000 tasks in 200 cgroups; what it stored, against the kernel's
# own count.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v prometheus > /dev/null || fail "prometheus is missing; install it (Debian's package has this name)"
vm --cpus 2 --clock icount --timeout 7200 -- \
	python3 -B tests/vm/guest/metrics.py "$bin/scx_drfq" "$bin/drfq-load" "$(command -v prometheus)" 600
