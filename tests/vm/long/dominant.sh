# SPDX-License-Identifier: GPL-2.0-only
# tests/scenarios/dominant.toml in full; its table becomes docs/results-dominant.md.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
publish dominant
