# SPDX-License-Identifier: GPL-2.0-only
# SIGKILL of the agent at 100 random moments on each kernel, also while it loads: within half a second of guest time the
# kernel is back at its own scheduler, and in the end no BPF object is left.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --clock icount -- "$exp" kill 100 --at-random --within-ms 500 --out "$out"
done
