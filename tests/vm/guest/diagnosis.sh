# SPDX-License-Identifier: GPL-2.0-only
# diagnosis.sh SCX_DRFQ WORD: on this kernel it cannot run; doctor and the scheduler both say why, naming WORD.
set -u
scx_drfq=$1 word=$2 bad=0

complain() {
	echo "$*"
	bad=1
}

report=$("$scx_drfq" doctor 2>&1)
status=$?
echo "$report"
((status == 1)) || complain "doctor ended with $status, not 1"
grep -q "$word" <<< "$report" || complain "doctor does not name $word"

report=$("$scx_drfq" 2>&1)
status=$?
echo "$report"
((status == 1)) || complain "scx_drfq ended with $status, not 1"
grep -q "$word" <<< "$report" || complain "scx_drfq does not name $word"
(($(wc -l <<< "$report") == 1)) || complain "scx_drfq used more than one line"
exit $bad
