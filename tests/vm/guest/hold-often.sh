# SPDX-License-Identifier: GPL-2.0-only
# A task reads directly, and each read makes a debt, beside hogs and tasks that switch often. A hold that never ended
# would stop the reader; the kernel's watchdog would then end the scheduler. Usage: hold-often.sh DRFQ_LOAD READS
set -eu
others=()
trap 'kill "${others[@]}"' EXIT
for _ in 1 2 3 4; do
	"$1" hog &
	others+=($!)
done
for _ in 1 2 3 4 5 6; do
	"$1" sleeper --run-us 20 --sleep-us 100 &
	others+=($!)
done
timeout 90 "$1" dma /dev/vda --block-bytes 4096 --count "$2" --json -
