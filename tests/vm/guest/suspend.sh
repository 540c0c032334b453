# SPDX-License-Identifier: GPL-2.0-only
# Suspends the VM up to one level after another (/sys/power/pm_test) beside hogs. After each resume the scheduler is
# loaded, by the same agent, and the hogs have their shares. Usage: suspend.sh SCX_DRFQ DRFQ_LOAD
#
# The root directory, over virtio, does not come back when devices were suspended. So all that runs then is in memory,
# what is found goes to the second serial port, with a last line "ok", and the script ends the VM.
set -eu
root=/sys/kernel/sched_ext
power=/sys/power

fail() {
	echo "FAILED: $*"
	dmesg | tail -n 40
	[[ ! -e /agent.log ]] || cat /agent.log
	echo b > /proc/sysrq-trigger
	sleep 60
}

# Waits until true for at most 300 s: await WHAT COMMAND ...
await() {
	for _ in $(seq 3000); do
		! "${@:2}" || return 0
		sleep 0.1
	done
	fail "waited for $1 in vain: state $(cat $root/state), enable_seq $(cat $root/enable_seq)"
}

enabled() { [[ $(cat $root/state) = enabled ]]; }
loaded_after() { (($(cat $root/enable_seq) > $1)) && enabled; }

# Hogs of nice 0 and -3 share the CPUs by weight, within 2 %: shares WHEN
shares() {
	local weights=(1024 1024 1991 1991) before=() used=() total=0 pid i ns _ off worst=0
	sleep 2
	for pid in "${hogs[@]}"; do
		read -r ns _ < "/proc/$pid/schedstat"
		before+=("$ns")
	done
	sleep 5
	for i in "${!hogs[@]}"; do
		read -r ns _ < "/proc/${hogs[i]}/schedstat"
		used+=($((ns - before[i])))
		((total += used[i]))
	done
	for i in "${!hogs[@]}"; do
		# In thousandths of the fair share.
		off=$((used[i] * 6030 * 1000 / (weights[i] * total) - 1000))
		off=${off#-}
		((off <= worst)) || worst=$off
	done
	echo "$1: hogs used ${used[*]} ns of $total, at most $worst thousandths off"
	((worst <= 20)) || fail "$1: a hog is off by $worst thousandths"
	((total > 9000000000)) || fail "$1: the hogs used $total ns of 10 s"
}

# Suspends to STATE up to LEVEL, and looks: suspend STATE LEVEL
suspend() {
	local loads
	loads=$(cat $root/enable_seq)
	dmesg --clear
	echo "$2" > $power/pm_test
	echo "$1" > $power/state || fail "$1 up to $2: refused"
	dmesg | grep -q 'suspend debug: Waiting' || fail "$1 up to $2: the level was not reached"
	case $2 in
		processors | core)
			# The other CPU was offline, which ends the scheduler. Beside hogs the agent loads for minutes.
			kill -STOP "${hogs[@]}"
			await "another load" loaded_after "$loads"
			kill -CONT "${hogs[@]}"
			;;
		*) if loaded_after "$loads" || ! enabled; then fail "$1 up to $2: the scheduler was ended"; fi ;;
	esac
	shares "$1 up to $2, loaded $(($(cat $root/enable_seq) - loads)) times more"
	kill -0 "$agent" || fail "$1 up to $2: the agent has ended"
	! dmesg | grep -E 'WARNING:|BUG:|stall|runtime error' || fail "$1 up to $2: the kernel reports trouble"
}

if [[ ! -e /inside ]]; then
	ram=/run/ram
	mkdir $ram
	mount -t tmpfs none $ram
	for program in "$1" "$2" "$(type -P bash)" "$(type -P sleep)" "$(type -P cat)" "$(type -P seq)" \
		"$(type -P tail)" "$(type -P grep)" "$(type -P dmesg)"; do
		# shellcheck disable=SC2046  # a path of a library has no blank
		cp -L --parents $(ldd "$program" | grep -o '/[^ ]*') $ram
		mkdir -p $ram/bin $ram/run $ram/tmp $ram/var
		cp -L "$program" $ram/bin
	done
	ln -s /run $ram/var/run
	for tree in proc sys dev; do
		mkdir $ram/$tree
		mount --rbind /$tree $ram/$tree
	done
	touch $ram/inside
	cp "$0" $ram/suspend.sh
	# The measuring shell must not be late. Its children are ordinary tasks.
	exec chrt --reset-on-fork --fifo 1 chroot $ram /bin/bash /suspend.sh "$(basename "$1")" "$(basename "$2")"
fi

cd /
exec > /dev/ttyS1 2>&1
export PATH=/bin
echo 1 > /sys/module/suspend/parameters/pm_test_delay
"$1" --perf-event none --mba off > /agent.log 2>&1 &
agent=$!
await "the scheduler" enabled
hogs=()
for nice in 0 0 -3 -3; do
	"$2" --nice=$nice hog > /dev/null &
	hogs+=($!)
done
shares "before"
for level in freezer devices; do
	suspend freeze $level
done
grep -q deep $power/mem_sleep || fail "the VM does not offer suspend to RAM"
for level in devices processors core; do
	suspend mem $level
done
echo ok
echo b > /proc/sysrq-trigger
sleep 60
