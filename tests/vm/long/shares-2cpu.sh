# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/shares-2cpu.toml in full; its table becomes docs/results-shares-2cpu.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish shares-2cpu
