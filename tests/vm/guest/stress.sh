# SPDX-License-Identifier: GPL-2.0-only
# stress.sh SECONDS: processor, fork, pipe, mutex, affinity, yield, memory and signals, all at once. As nobody: with
# privileges the mutex stressor makes its threads SCHED_FIFO, and those take all CPUs from every other class (kernels
# without a deadline server for sched_ext then end the scheduler after the 30 s of the watchdog).
exec setpriv --reuid 65534 --regid 65534 --clear-groups stress-ng --timeout "$1" --temp-path /tmp \
	--metrics-brief --no-rand-seed --cpu 2 --fork 2 --pipe 2 --mutex 2 --affinity 2 --yield 1 \
	--vm 1 --vm-bytes 64M --timer 1 --exec 1
