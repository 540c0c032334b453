# SPDX-License-Identifier: GPL-2.0-only
# CPU shares follow weights on 16 CPUs with 4 last-level caches, beside EEVDF. The rows go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
publish shares-16cpu
