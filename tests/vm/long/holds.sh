# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/holds.toml in full; its table becomes docs/results-holds.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
publish holds
