# SPDX-License-Identifier: GPL-2.0-only
# SIGKILL of the agent returns the kernel to its own scheduler within a second of guest time.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --clock icount -- "$exp" kill 3 --within-ms 1000 --out "$out"
