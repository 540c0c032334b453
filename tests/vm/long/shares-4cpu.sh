# SPDX-License-Identifier: GPL-2.0-only
# tests/experiments/shares-4cpu.toml in full; its table becomes docs/results-shares-4cpu.md.
set -e
tools/peers
status=0
tests/vm/experiment tests/experiments/shares-4cpu.toml || status=$?
[[ ! -s $DRFQ_TEST_OUT/table.md ]] || cp "$DRFQ_TEST_OUT/table.md" docs/results-shares-4cpu.md
exit $status
