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

say() { echo "tests/vm: $*" >&2; }

# Runs a command in the VM: vm [OPTIONS OF vm/vm run] -- CMD ...
vm() {
	vm/vm run --out "$out" "$@"
}

# Ends the test with a reason.
fail() {
	echo "$*" >&2
	exit 1
}

# Builds what the VMs run, unless the caller has; fast when nothing has changed.
build() {
	[[ -z ${DRFQ_BUILT-} ]] || return 0
	cargo build --quiet --profile "$profile" --workspace --bins
	export DRFQ_BUILT=1
}

# Runs an experiment in full: publish NAME. Its table becomes a page of docs, whatever the verdict.
publish() {
	local status=0
	# shellcheck disable=SC2086  # a word or none
	tests/vm/experiment "tests/scenarios/$1.toml" ${DRFQ_TEST_RESUME-} || status=$?
	[[ ! -s $out/table.md ]] || cp "$out/table.md" "docs/results-$1.md"
	return "$status"
}
