# SPDX-License-Identifier: GPL-2.0-only
# CPU shares follow weights on 2 CPUs, in full beside EEVDF and scx_rusty. The rows go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
tools/peers
publish shares-2cpu
