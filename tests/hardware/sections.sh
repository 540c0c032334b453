#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The sections of tests/hardware/run, inside the VM: sections.sh DIRECTORY-OF-GUEST-PROGRAMS SECTION ...
# Each section writes its results to $DRFQ_VM_OUT/SECTION; checks.py judges them on the host. Sections request their
# lines of ground truth themselves, and checks.py knows how many each one requests.

set -uo pipefail
programs=$1
shift
export PATH=$programs:$PATH
resctrl=/sys/fs/resctrl

note() { printf '%s\t%s\n' "$1" "$2"; }

section_resctrl() {
	local file
	mkdir "$resctrl/mon_groups/m" "$resctrl/g" && note mkdir ok
	for file in "$resctrl"/info/*/*; do
		note "info/${file#"$resctrl/info/"}" "$(tr '\n' ' ' < "$file")"
	done
	note schemata.default "$(tr -d ' ' < "$resctrl/schemata" | tr '\n' ' ')"
	echo "MB:0=30" > "$resctrl/g/schemata" && echo "L3:0=f" > "$resctrl/g/schemata"
	note schemata.written "$(tr -d ' ' < "$resctrl/g/schemata" | tr '\n' ' ')"
	for bad in "MB:0=200" "L3:0=5" "L3:0=1ff" "L3:0=0" "nonsense"; do
		if echo "$bad" > "$resctrl/g/schemata"; then
			note "schemata.$bad" taken
		else
			note "schemata.$bad" refused
		fi
	done 2> /dev/null
	echo $$ > "$resctrl/g/tasks"
	if grep -qx $$ "$resctrl/g/tasks"; then note tasks ok; fi
	stream -k 1024 -s 0.05 read@1 > /dev/null
	for file in llc_occupancy mbm_total_bytes mbm_local_bytes; do
		note "mon.$file" "$(cat "$resctrl/g/mon_data/mon_L3_00/$file")"
	done
	echo $$ > "$resctrl/tasks"
	rmdir "$resctrl/mon_groups/m" "$resctrl/g" && note rmdir ok
}

# A group's traffic as the kernel counts it, beside the ground truth.
section_mbm() {
	mkdir "$resctrl/g"
	local data=$resctrl/g/mon_data/mon_L3_00 before
	before=$(cat "$data/mbm_total_bytes")
	report_ground_truth
	stream -s 0.1 "copy@2@$resctrl/g" > /dev/null
	report_ground_truth
	note bytes $(($(cat "$data/mbm_total_bytes") - before))
	rmdir "$resctrl/g"
}

section_counters() {
	local op
	for op in spin read write; do
		pmu_check 3 "$op" 0
		pmu_check 3 "$op" 2
	done
}

# perf stat of a program that writes ground truth at its beginning and end; then with more events than counters, for
# about two seconds.
section_stat() {
	local exact=instructions:u,cycles:u,cache-references:u,cache-misses:u op passes began
	for op in spin read write; do
		for passes in 0 2; do
			perf stat -x, -o "$DRFQ_VM_OUT/perf" -e "$exact" perf_target "$op" "$passes"
			stat_notes "$op.$passes"
		done
	done
	began=${EPOCHREALTIME/./}
	perf_target read 8
	passes=$((8 * 2000000 / (${EPOCHREALTIME/./} - began)))
	perf stat -x, -o "$DRFQ_VM_OUT/perf" -e "$exact,$exact,$exact" perf_target read "$passes"
	stat_notes many
}

stat_notes() {
	awk -F, -v run="$1" '/:u/ {sub(":u", "", $3); print run "\t" $3 "\t" $1 "\t" $5}' "$DRFQ_VM_OUT/perf"
}

# More events than counters, so that the kernel multiplexes them. The shell's loop does uniform work.
section_multiplex() {
	local many=instructions:u
	# shellcheck disable=SC2016  # dash expands it
	local loop='i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'
	for _ in 1 2 3 4 5 6 7; do many+=,instructions:u; done
	perf stat -x, -o "$DRFQ_VM_OUT/one" -e instructions:u dash -c "$loop"
	perf stat -x, -o "$DRFQ_VM_OUT/many" -e "$many" dash -c "$loop"
	awk -F, '/instructions/ {print "one\t" $1 "\t" $5}' "$DRFQ_VM_OUT/one"
	awk -F, '/instructions/ {print "many\t" $1 "\t" $5}' "$DRFQ_VM_OUT/many"
}

section_ratios() {
	stream -t -s 0.2 copy@1
	stream -t -s 0.2 read@1
	stream -t -s 0.2 write@1
	stream -t -s 0.1 -w 3 -k 1024 copy@1
}

# One second each: every stream passes its arrays more than twice, so the result is an average over all their pages.
section_contention() {
	stream -t -r -s 1 copy@1
	stream -t -r -s 1 copy@1 copy@2
	stream -t -r -s 1 copy@0 copy@1 copy@2 copy@3
}

# The kernel's misses, and the spinner's own after them, are few and take long at 10 %: 1 ms of a spinner's time.
section_mba() {
	local level
	mkdir "$resctrl/g"
	for level in 10 30 60 100; do
		echo "MB:0=$level" > "$resctrl/g/schemata"
		stream -r -s "$seconds" -w 0 -k 8192 "copy@1@$resctrl/g"
		stream -t -s 1 "spin@1@$resctrl/g"
	done
	rmdir "$resctrl/g"
}

# Starts a stream on core 2 in a group, in the background.
start_disturber() {
	stream -s 100 -w 0 "copy@2@$1" > /dev/null &
	disturber=$!
	sleep 0.05
}

section_cat() {
	local place
	mkdir "$resctrl/a" "$resctrl/b"
	echo "L3:0=0f" > "$resctrl/a/schemata"
	echo "L3:0=f0" > "$resctrl/b/schemata"
	stream -t -s 0.1 -w 3 -k 1024 "read@1@$resctrl/a"
	stream -t -s 0.1 -w 3 -k 1024 "read@1@$resctrl/a" "read@2@$resctrl/b"
	# Beside a stream in the other half, then beside one in the same half. After that in too few ways.
	for place in b a; do
		start_disturber "$resctrl/$place"
		stream -t -s 0.1 -w 3 -k 1024 "read@1@$resctrl/a"
		pkill -P "$disturber" stream
		wait "$disturber"
	done
	echo "L3:0=03" > "$resctrl/a/schemata"
	stream -t -s 0.1 -w 3 -k 1024 "read@1@$resctrl/a"
	rmdir "$resctrl/a" "$resctrl/b"
}

# A copier and a reader under scx_drfq: what it charges them by its perf event, beside the ground truth of their cores.
section_scheduler() {
	python3 -B "$(dirname "$0")/../vm/guest/misses.py" "$DRFQ_SCX"
}

section_registers() {
	note id "$(controller_registers read 0x0)"
	note version "$(controller_registers read 0x8)"
	note pids "$(controller_registers read 0x10)"
	note cores "$(controller_registers read 0x18)"
	# The id is read-only, and so is the virtual time of pid 0.
	note read_only "$(controller_registers write 0x0 1 read 0x0 write 0x30000 5 read 0x30000 | tr '\n' ' ')"
	note traffic "$(controller_registers write 0x48008 7 read 0x10038 run stream -t -s 0.1 copy@1 | tr '\n' ' ')"
	note cleared "$(controller_registers write 0x48008 0 read 0x20038 read 0x10038 read 0x10038 | tr '\n' ' ')"
	# The lower virtual time is served first. Then the two swap, by the mailbox page.
	controller_registers write 0x48008 1 write 0x48010 2 write 0x40008 1 write 0x40010 1000 \
		run stream -s "$seconds" copy@1 copy@2 |
		sed 's/^/first\t/'
	controller_registers publish 1 1 1000 publish 2 2 1 run stream -s "$seconds" copy@1 copy@2 | sed 's/^/second\t/'
	controller_registers write 0x48008 0 write 0x48010 0 write 0x40008 0 write 0x40010 0
}

seconds=${DRFQ_STREAM_SECONDS:-0.2}
# The kernel creates this directory only if the CPU has RDT.
[[ ! -d $resctrl ]] || mount -t resctrl resctrl "$resctrl"
for section in "$@"; do
	if ! declare -F "section_$section" > /dev/null; then
		echo "sections.sh: there is no section $section; sections are the functions section_* of this file" >&2
		exit 2
	fi
	report_ground_truth
	"section_$section" > "$DRFQ_VM_OUT/$section" 2> "$DRFQ_VM_OUT/$section.err"
	cat "$DRFQ_VM_OUT/$section.err" >&2
done
report_ground_truth
