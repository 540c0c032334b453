# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# Named steps that run beside each other. Each reports its seconds, and a last line counts them. Sourced by the
# scripts of this directory.
#
#   start NAME COMMAND ...   starts a step; its output goes to a log
#   finish [NAME ...]        waits for started steps (all by default); prints the log of each that failed
#   finish_below N           waits until fewer than N steps run
#   step NAME COMMAND ...    runs one step alone and shows its output
#   hint NAME COMMAND        the command that repeats a failed step
#   summary                  prints what failed, how its log ends, and "N passed, N failed"; its status is 0 if all
#                            passed

steps_begin=$SECONDS
steps_logs=$(mktemp -d "${TMPDIR:-/tmp}/drfq-steps.XXXXXX")
steps_passed=0
steps_failed=()
# Steps that pass in less than so many seconds print nothing.
steps_silent_below=0
# Seconds between two lines of progress.
steps_interval=10
declare -A steps_pid=() steps_since=() steps_hint=()

# Ends what still runs when the script ends early.
steps_stop() {
	local name
	for name in "${!steps_pid[@]}"; do
		kill -- "-${steps_pid[$name]}" 2> /dev/null || :
	done
	rm -rf "$steps_logs"
}
trap steps_stop EXIT

# Prints a line behind the minutes and seconds since the script began.
steps_say() {
	local seconds=$((SECONDS - steps_begin))
	printf '[%d:%02d] %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
}

hint() { steps_hint[$1]=$2; }

# Records the end of a step: NAME STATUS SECONDS.
steps_record() {
	if (($2)); then
		steps_failed+=("$1")
		steps_say "$1: FAILED ($3 s)"
		return 0
	fi
	steps_passed=$((steps_passed + 1))
	(($3 < steps_silent_below)) || steps_say "$1: passed ($3 s)"
}

step() {
	local name=$1 since=$SECONDS status=0
	shift
	steps_say "$name: running"
	"$@" < /dev/null || status=$?
	steps_record "$name" "$status" $((SECONDS - since))
	return "$status"
}

start() {
	local name=$1
	shift
	steps_since[$name]=$SECONDS
	# A separate process group, so that steps_stop reaches what the command starts.
	set -m
	"$@" < /dev/null > "$steps_logs/$name" 2>&1 &
	set +m
	steps_pid[$name]=$!
}

# Collects a step that has ended.
steps_reap() {
	local name=$1 status=0
	wait "${steps_pid[$name]}" || status=$?
	unset "steps_pid[$name]"
	((status == 0)) || tail -n 60 "$steps_logs/$name"
	steps_record "$name" "$status" $((SECONDS - steps_since[$name]))
}

# One line for each step that runs: its seconds and the last line it printed.
steps_progress() {
	local name last
	for name in "$@"; do
		last=$(tail -n 1 "$steps_logs/$name" | tr -cd '[:print:]')
		steps_say "$name: $((SECONDS - steps_since[$name])) s${last:+, ${last:0:90}}"
	done
}

# Waits until at most $1 of the steps named run.
steps_wait() {
	local most=$1 name running told=$SECONDS failures=${#steps_failed[@]}
	shift
	while :; do
		running=()
		for name in "$@"; do
			[[ -n ${steps_pid[$name]-} ]] || continue
			if kill -0 "${steps_pid[$name]}" 2> /dev/null; then
				running+=("$name")
			else
				steps_reap "$name"
			fi
		done
		((${#running[@]} > most)) || break
		if ((SECONDS - told >= steps_interval)); then
			steps_progress "${running[@]}"
			told=$SECONDS
		fi
		sleep 0.1
	done
	((${#steps_failed[@]} == failures))
}

finish() {
	(($#)) || set -- "${!steps_pid[@]}"
	steps_wait 0 "$@"
}

finish_below() { steps_wait $(($1 - 1)) "${!steps_pid[@]}"; }

summary() {
	local name
	for name in "${steps_failed[@]}"; do
		# Once more, because whoever reads the end of a long output looks here.
		[[ ! -s $steps_logs/$name ]] || tail -n 15 "$steps_logs/$name"
		echo "FAILED: $name${steps_hint[$name]+; run: ${steps_hint[$name]}}"
	done
	echo "$steps_passed passed, ${#steps_failed[@]} failed"
	((${#steps_failed[@]} == 0))
}
