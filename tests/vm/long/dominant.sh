# SPDX-License-Identifier: GPL-2.0-only
# tests/experiments/dominant.toml in full; its table becomes docs/results-dominant.md.
set -e
tools/peers
status=0
tests/vm/experiment tests/experiments/dominant.toml || status=$?
[[ ! -s $DRFQ_TEST_OUT/table.md ]] || cp "$DRFQ_TEST_OUT/table.md" docs/results-dominant.md
exit $status
