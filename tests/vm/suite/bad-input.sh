# SPDX-License-Identifier: GPL-2.0-only
# A wrong option, missing privileges, an unreadable topology and a loaded scheduler each give one line and a status.
# SysRq-S ends the agent with status 0.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm -- bash tests/vm/guest/bad-input.sh "$bin/scx_drfq"
