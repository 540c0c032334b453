# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/shares-4cpu.toml in full; its table becomes docs/results-shares-4cpu.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish shares-4cpu
