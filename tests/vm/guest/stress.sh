# SPDX-License-Identifier: GPL-2.0-only
# stress.sh SECONDS: processor, fork, pipe, mutex, affinity, yield, memory and signals, all at once.
exec stress-ng --timeout "$1" --temp-path /tmp --metrics-brief --no-rand-seed \
	--cpu 2 --fork 2 --pipe 2 --mutex 2 --affinity 2 --yield 1 --vm 1 --vm-bytes 64M --timer 1 --exec 1
