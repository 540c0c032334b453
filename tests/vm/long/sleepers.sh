# SPDX-License-Identifier: GPL-2.0-only
# tests/experiments/sleepers.toml in full; its table becomes docs/results-sleepers.md.
set -e
tools/peers
status=0
tests/vm/experiment tests/experiments/sleepers.toml || status=$?
[[ ! -s $DRFQ_TEST_OUT/table.md ]] || cp "$DRFQ_TEST_OUT/table.md" docs/results-sleepers.md
exit $status
