# SPDX-License-Identifier: GPL-2.0-only
# hold-often.sh DRFQ_LOAD READS: a direct reader whose every read makes a debt, beside hogs and tasks that switch often.
# A hold that nobody ends would stop it for good; the watchdog of the kernel then ends the scheduler.
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
