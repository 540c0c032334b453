# SPDX-License-Identifier: GPL-2.0-only
# Tasks that sleep wake up in time and get no more than their share.
# In full beside EEVDF and scx_rusty. The rows go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish sleepers
