#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# `scx_drfq evidence` in the VM, and what it leaves: evidence.sh SCX_DRFQ SECONDS. Prints the file.

set -euo pipefail

file=$(mktemp -u)
before=$(cat /proc/mounts)
state=/sys/kernel/sched_ext/state

fail() {
	echo "$*" >&2
	exit 1
}

unchanged() {
	[[ $(cat /proc/mounts) = "$before" ]] || fail "resctrl is not as it was"
	[[ ! -e $state || $(< $state) = disabled ]] || fail "a scheduler is still loaded"
}

"$1" evidence --seconds "$2" "$file" >&2
unchanged
# A file that exists is kept.
if "$1" evidence --seconds 10 "$file" 2> /dev/null; then
	fail "evidence has overwritten its file"
fi
# Ctrl-C reaches the whole process group, here while the scheduler is loaded if it can be.
other=$(mktemp -u)
set -m
"$1" evidence --seconds 10 "$other" > "$other.log" 2>&1 &
set +m
until grep -q 'set 1.*under scx_drfq' "$other.log" || { [[ ! -e $state ]] && grep -q 'set 1' "$other.log"; }; do
	sleep 0.2
done
kill -INT -- "-$!"
wait "$!" || :
for _ in {1..100}; do
	[[ -e $state && $(< $state) != disabled || $(cat /proc/mounts) != "$before" ]] || break
	sleep 0.2
done
unchanged
[[ ! -e $other ]] || fail "evidence has left a file after Ctrl-C"
cat "$file"
