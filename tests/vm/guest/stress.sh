# SPDX-License-Identifier: GPL-2.0-only
# Nine stressors at once: CPU, fork, pipe, mutex, affinity, yield, memory, timers and exec. Usage: stress.sh SECONDS
# It runs without privileges. With them the mutex stressor's threads are SCHED_FIFO and take every CPU; a kernel
# without a deadline server for sched_ext then ends the scheduler at the watchdog's 30 s.
exec setpriv --reuid 65534 --regid 65534 --clear-groups stress-ng --timeout "$1" --temp-path /tmp \
	--metrics-brief --no-rand-seed --cpu 2 --fork 2 --pipe 2 --mutex 2 --affinity 2 --yield 1 \
	--vm 1 --vm-bytes 64M --timer 1 --exec 1
