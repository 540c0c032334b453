# SPDX-License-Identifier: GPL-2.0-only
# The kernel returns to its own scheduler within 0.3 s of guest time after SIGKILL of the agent.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --clock icount -- "$exp" kill 2 --within-ms 300 --out "$out"
