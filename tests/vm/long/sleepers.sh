# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/sleepers.toml in full; its table becomes docs/results-sleepers.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish sleepers
