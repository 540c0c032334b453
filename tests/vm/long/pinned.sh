# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/pinned.toml in full; its table becomes docs/results-pinned.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish pinned
