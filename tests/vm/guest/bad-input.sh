# SPDX-License-Identifier: GPL-2.0-only
# Every wrong input ends in its status and one message. As root in the VM: bad-input.sh SCX_DRFQ
set -u
scx_drfq=$1 bad=0

# CMD ends with STATUS, names WORD and does not panic: expect STATUS WORD CMD ...
expect() {
	local want=$1 word=$2 said status
	shift 2
	said=$(timeout 60 "$@" 2>&1)
	status=$?
	echo "[$status] $*: $said"
	if ((status != want)); then
		echo "FAILED: status $status, not $want"
		bad=1
	elif ! grep -qi -- "$word" <<< "$said"; then
		echo "FAILED: the message does not name $word"
		bad=1
	elif grep -q 'panicked\|RUST_BACKTRACE\|libbpf:' <<< "$said"; then
		echo "FAILED: the message is a developer's: a panic, a backtrace or libbpf"
		bad=1
	elif ((want == 1 && $(wc -l <<< "$said") != 1)); then
		echo "FAILED: more than one line"
		bad=1
	fi
}

expect 2 'unexpected argument' "$scx_drfq" --no-such-option
expect 2 'slice-us' "$scx_drfq" --slice-us 0
expect 2 'slice-us' "$scx_drfq" --slice-us 99999999999999999999
expect 2 'cannot be used with' "$scx_drfq" --no-delayed-wakeup --hold-slices 3
expect 2 'memory-bandwidth' "$scx_drfq" --memory-bandwidth lots

# Without privileges, like a root shell in a container.
expect 1 'privilege\|permi\|CAP_' setpriv --bounding-set=-all --inh-caps=-all "$scx_drfq"
expect 1 'privilege\|permi\|CAP_' setpriv --reuid=65534 --regid=65534 --clear-groups "$scx_drfq"

# The CPU topology in sysfs is missing.
# shellcheck disable=SC2016 # the inner shell expands it
expect 1 'sys' unshare -m sh -c 'mount -t tmpfs none /sys/devices/system && exec "$0"' "$scx_drfq"

# A scheduler is loaded already.
"$scx_drfq" > /tmp/first.log 2>&1 &
first=$!
for _ in $(seq 600); do
	[[ $(cat /sys/kernel/sched_ext/state) != enabled ]] || break
	sleep 0.1
done
expect 1 'already' "$scx_drfq"

# SysRq-S ends any sched_ext scheduler. The agent has done nothing wrong.
echo S > /proc/sysrq-trigger
wait $first
status=$?
cat /tmp/first.log
if ((status != 0)) || ! grep -q 'sysrq-S' /tmp/first.log; then
	echo "FAILED: status $status, not 0, or the agent does not name SysRq-S"
	bad=1
fi
exit $bad
