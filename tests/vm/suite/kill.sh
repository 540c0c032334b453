# SPDX-License-Identifier: GPL-2.0-only
# The kernel returns to its own scheduler within half a second of guest time after SIGKILL of the agent.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --clock icount -- "$exp" kill 2 --within-ms 500 --out "$out"
