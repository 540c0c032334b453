# SPDX-License-Identifier: GPL-2.0-only
# What the scheduler charges for reads and writes of md devices (software RAID), beside what the disks below moved, on
# the oldest and the newest kernel; the results become rows.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for program in fio mdadm; do
	command -v "$program" > /dev/null || fail "$program is missing; run tools/setup"
done
find_provenance
status=0
for kernel in ${DRFQ_TEST_KERNELS:-oldest newest}; do
	rm -f "$out/$kernel.csv"
	vm --kernel "$kernel" --clock icount --disk 64M --disk 64M --disk 64M --disk 64M -- \
		python3 -B tests/vm/guest/raid.py "$bin/scx_drfq" > "$out/$kernel"
	python3 -B tests/vm/raid.py "$out/$kernel" "$kernel" "$out/$kernel.csv" \
		"${provenance[1]}" "${provenance[3]}" || status=1
	tools/results --add "$out/$kernel.csv"
done
exit "$status"
