# SPDX-License-Identifier: GPL-2.0-only
# SIGKILL of the agent at 200 random moments, also while it loads, on both kernels: within a second of guest time the
# kernel is back at its own scheduler, and in the end no BPF object is left.
# It has not run through yet.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	vm --kernel "$kernel" --clock icount -- "$exp" kill 200 --moments-ms 4000 --within-ms 1000 --out "$out"
done
