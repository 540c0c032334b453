# SPDX-License-Identifier: GPL-2.0-only
# tests/experiments/holds.toml in full; its table becomes docs/results-holds.md.
set -e
tools/peers
status=0
tests/vm/experiment tests/experiments/holds.toml || status=$?
[[ ! -s $DRFQ_TEST_OUT/table.md ]] || cp "$DRFQ_TEST_OUT/table.md" docs/results-holds.md
exit $status
