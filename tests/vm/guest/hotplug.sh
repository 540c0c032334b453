# SPDX-License-Identifier: GPL-2.0-only
# Takes CPU 1 offline and online three times; the scheduler loads again each time.
set -eu
root=/sys/kernel/sched_ext
cpu=/sys/devices/system/cpu/cpu1/online

# Waits until the scheduler was loaded more than N times and runs: wait_seq N
wait_seq() {
	for _ in $(seq 600); do
		if (($(cat $root/enable_seq) > $1)) && [[ $(cat $root/state) = enabled ]]; then
			return
		fi
		sleep 0.1
	done
	echo "not loaded again within 60 s: state $(cat $root/state), enable_seq $(cat $root/enable_seq)"
	exit 1
}

for round in 1 2 3; do
	for online in 0 1; do
		seq=$(cat $root/enable_seq)
		echo $online > $cpu
		wait_seq "$seq"
		echo "round $round: CPU 1 online=$online, loaded again"
	done
done
