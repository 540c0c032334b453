# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# Functions and paths shared by the scripts of this directory. Sourced with the repository as the current directory.

set -euo pipefail

# Cargo's profile: dev, with overflow checks and debug assertions, unless something is measured (--long, bench).
profile=${DRFQ_PROFILE:-dev}
target=${CARGO_TARGET_DIR:-$PWD/target}
bin=$target/${profile/#dev/debug}
# shellcheck disable=SC2034  # of the scripts that source this
exp=$bin/drfq-exp

# Results, logs: one directory for each test, kept until the next run.
cache=${DRFQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_drfq}
out=${DRFQ_TEST_OUT:-$cache/test-vm}
mkdir -p "$out"

# Rules of a machine's controller that docs/results/controller-design.md recommends, for sed.
# shellcheck disable=SC2034  # of the scripts that source this
recommended='admission = "share"\nprepare = true\nfill = true\nbatch = true\ntie_bursts = 32'

say() { echo "tests/vm: $*" >&2; }

# Runs a command in the VM: vm [OPTIONS OF vm/vm run] -- CMD ... Short tests take minutes at most, so one that hangs
# ends within twenty, unless the options have another --timeout.
vm() {
	local limit=()
	[[ $profile != dev ]] || limit=(--timeout 1200)
	vm/vm run --out "$out" "${limit[@]}" "$@"
}

# Ends the test with a reason.
fail() {
	echo "$*" >&2
	exit 1
}

# Builds what the VMs run, unless the caller has; fast when nothing has changed.
build() {
	[[ -z ${DRFQ_BUILT-} ]] || return 0
	# Others may commit here before the last VM ends.
	[[ $profile = dev ]] || find_provenance
	cargo build --quiet --profile "$profile" --workspace --bins
	export DRFQ_BUILT=1
}

# Sets `provenance`: options that tell drfq-exp which commit is measured, and when. The VM has neither git nor the date.
# Called before the first VM, because a commit that comes while VMs run is not measured. Short tests, in profile dev,
# measure nothing.
find_provenance() {
	if [[ -z ${DRFQ_COMMIT-} ]]; then
		[[ $profile = dev ]] || git diff --quiet HEAD -- . ':!docs' ':!*.md' ||
			say "warning: the tree has uncommitted changes: these rows name a commit that was not measured"
		DRFQ_COMMIT=$(git rev-parse --short HEAD)
		DRFQ_CHANGES=$(git diff HEAD -- . ':!docs' ':!*.md' | git hash-object --stdin)
		export DRFQ_COMMIT DRFQ_CHANGES
	fi
	[[ -n ${provenance-} ]] || provenance=(--commit "$DRFQ_COMMIT" --date "$(date -u +%F)")
}

# Whether the boot NAME has run with this tree and these WORDs, which tell all that its results depend on. Otherwise
# finish_boot NAME marks it once it has: boot_is_done NAME WORD ... Call find_provenance first.
boot_is_done() {
	boot_words="$DRFQ_COMMIT $DRFQ_CHANGES ${*:2}"
	[[ ! -e $out/$1.done || $(< "$out/$1.done") != "$boot_words" ]] || return 0
	rm -f "$out/$1.done"
	return 1
}
finish_boot() { echo "$boot_words" > "$out/$1.done"; }

# Runs a scenario in full and takes over its rows into docs/results, whatever the verdict: publish NAME.
publish() {
	local status=0
	# shellcheck disable=SC2086  # a word or none
	tests/vm/scenario "tests/scenarios/$1.toml" ${DRFQ_TEST_RESUME-} || status=$?
	[[ ! -s $out/rows.csv ]] || tools/results --add "$out/rows.csv"
	return "$status"
}

# Runs stress-ng in the VM for SECONDS on KERNEL, and looks at V: it advances by at most 68.3 ns per ns, the rate of a
# machine with tasks of nice 19 alone, and by more than with 1,000 tasks of nice 0. stress_for SECONDS KERNEL.
stress_for() {
	local log=$out/stress-$2.txt
	vm --cpus 2 --kernel "$2" -- "$exp" with-scheduler --out "$out" -- bash tests/vm/guest/stress.sh "$1" 2>&1 |
		tee "$log"
	local advance interval
	advance=$(grep -o '"vtime_advance_ns":[0-9]*' "$log" | cut -d: -f2)
	interval=$(grep -o '"interval_ns":[0-9]*' "$log" | cut -d: -f2)
	((${#advance} < 19 && advance < 69 * interval && advance > interval / 1000)) ||
		fail "V advanced by $advance ns in $interval ns"
}

# Sets `cards`: options that give a VM two network cards on one cable.
two_cards() {
	local card option
	# shellcheck disable=SC2034  # of the scripts that source this
	cards=()
	for card in 1 2; do
		for option in -netdev "hubport,id=port$card,hubid=0" \
			-device "virtio-net-pci,netdev=port$card,mac=52:54:00:00:00:0$card,romfile="; do
			cards+=("--qemu-option=$option")
		done
	done
}

# mbw beside a reader of the disk, on the machine disk whose controller serves by virtual time. Its disk is fast
# enough to take all of the memory. Leaves rows in $out/rows.csv: share_with_a_disk MBW:READER ...
share_with_a_disk() {
	command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
	local machine=$out/lvtf.toml
	find_provenance
	rm -f "$out/truth" "$out/rows.csv"
	sed 's/^policy = "frfcfs"/policy = "lvtf"/; s/^mb_per_s = .*/mb_per_s = 4000/' \
		vm/machines/disk.toml > "$machine"
	vm --machine "$machine" --machine-stats "$out/truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/storage.py \
		shares "$bin/scx_drfq" "$@" || return
	python3 -B tests/vm/storage.py shares "$out/truth" "$out/rows.csv" "${provenance[1]}" "${provenance[3]}" "$@"
}

# mbw of different cpu.weight on the machine lvtf; LABELS and cases: as tests/vm/guest/set_one.py wants them. Leaves
# rows in $out/LABELS.csv: share_between_mbw LABELS CASE=WINDOWS ...
share_between_mbw() {
	command -v mbw > /dev/null || fail "mbw is missing; run tools/setup"
	local labels=$1 variant="labels copied"
	local truth=$out/$labels.truth
	[[ $labels != switch ]] || variant="labels at each switch"
	shift
	find_provenance
	rm -f "$truth" "$out/$labels.csv"
	vm --timeout "${SHARES_TIMEOUT_S:-900}" --machine lvtf \
		--machine-stats "$truth" --machine-interval 1000000000 -- \
		env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/set_one.py \
		"$bin/scx_drfq" "$bin/drfq-load" "$labels" "$@" > "$out/$labels.log" || return
	python3 -B tests/vm/set_one.py "$variant" "$out/$labels.log" "$truth" "$out/$labels.csv" \
		"${provenance[1]}" "${provenance[3]}"
}
