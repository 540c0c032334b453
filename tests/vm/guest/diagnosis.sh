# SPDX-License-Identifier: GPL-2.0-only
# On a kernel that cannot run it, scx_drfq and its doctor name the reason. Usage: diagnosis.sh SCX_DRFQ REASON
set -u
scx_drfq=$1 reason=$2 bad=0

complain() {
	echo "$*"
	bad=1
}

report=$("$scx_drfq" doctor 2>&1)
status=$?
echo "$report"
((status == 1)) || complain "doctor ended with $status, not 1"
grep '^\[FAIL\]' <<< "$report" | grep -q "$reason" || complain "doctor's failures do not name: $reason"

report=$("$scx_drfq" 2>&1)
status=$?
echo "$report"
((status == 1)) || complain "scx_drfq ended with $status, not 1"
grep -q "$reason" <<< "$report" || complain "scx_drfq does not name: $reason"
(($(wc -l <<< "$report") == 1)) || complain "scx_drfq used more than one line"
exit $bad
