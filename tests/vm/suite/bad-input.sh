# SPDX-License-Identifier: GPL-2.0-only
# Wrong options, missing privileges, an unreadable machine, another scheduler: each one line and a status.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm -- bash tests/vm/guest/bad-input.sh "$bin/scx_drfq"
