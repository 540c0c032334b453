# SPDX-License-Identifier: GPL-2.0-only
# A recording survives SIGKILL and is continued; report, export and top read it. Metrics agree with the kernel's count.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 -- python3 -B tests/vm/guest/recordings.py "$bin/scx_drfq" "$out"
grep -q '# EOF' "$out/metrics.txt" || fail "the metrics have no end"
