# SPDX-License-Identifier: GPL-2.0-only
# Takes a package through its life under systemd: package.sh OLDER NEWER DRFQ-LOAD. Of an RPM the machine, a Debian,
# lacks the database and what it depends on.
set -euo pipefail

fail() {
	echo "FAILED: $*"
	systemctl status --no-pager --full scx_drfq.service || true
	journalctl --no-pager -n 40 -u scx_drfq.service || true
	exit 1
}

# Waits for a condition, a minute at most: until WHAT CMD ...
until_true() {
	local what=$1 count
	shift
	for ((count = 0; count < 120; count++)); do
		! "$@" || return 0
		sleep 0.5
	done
	fail "$what"
}

shows() { [[ $(systemctl show --property "$1" --value scx_drfq.service) = "$2" ]]; }
main_pid() { systemctl show --property MainPID --value scx_drfq.service; }
schedules() { [[ $(cat /sys/kernel/sched_ext/state) = enabled && $(cat /sys/kernel/sched_ext/root/ops) = drfq_* ]]; }
groups() { find /sys/fs/resctrl -maxdepth 2 -name 'drfq_*' | sort; }
# A directory that is made again has another inode.
inodes() { find /sys/fs/resctrl -maxdepth 2 -name 'drfq_*' -printf '%i\n' | sort; }
has_groups() { [[ -n $(groups) ]]; }
serves() { scx_drfq top --plain --interval 0.5 --duration 1 > /dev/null; }
# The CPU time of services by the kernel's account (ms): used SERVICE ...
used() {
	local service sum=0
	for service; do
		sum=$((sum + $(sed -n 's/^usage_usec //p' "/sys/fs/cgroup/system.slice/$service.service/cpu.stat")))
	done
	echo $((sum / 1000))
}
# Of the CPU that three services share, the debtor gets less than 15 % in 4 s. Where none of the others waited, it
# would owe no more, so there are two.
debtor_waits() {
	local debtor others
	debtor=$(used debtor) others=$(used creditor1 creditor2)
	sleep 4
	debtor=$(($(used debtor) - debtor)) others=$(($(used creditor1 creditor2) - others))
	echo "the debtor got $debtor ms, the others $others ms"
	((100 * debtor < 15 * (debtor + others)))
}
# Where the package and its users may have left something; a search of all of /usr would take long.
places=(/etc /etc/default /etc/systemd /run /sys/fs/bpf /usr/lib/systemd/system /usr/bin /usr/share/doc
	/usr/share/man/man1 /usr/share/bash-completion/completions /usr/share/zsh/vendor-completions
	/usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d /usr/share/licenses /var/lib)
files() {
	# Not each place exists.
	{ find "${places[@]}" -xdev -maxdepth 2 ! -path '/run/systemd/units/*' \
		\( -name '*scx*drfq*' -o -path '/run/scx*' \) -print 2> /dev/null || :; } |
		sort -u
}

# What the manager of the package does; both packages have the same name.
case $1 in
	*.deb)
		install_package() { dpkg --install "$1"; }
		is_newer() { [[ $(dpkg-query --show --showformat '${Version}' scx-drfq) = *+newer ]]; }
		remove_package() { dpkg --remove scx-drfq; }
		kept=$'/etc/default/scx_drfq\n/etc/scx_drfq.toml'
		purge_package() { dpkg --purge scx-drfq; }
		is_known() { [[ -e /var/lib/dpkg/info/scx-drfq.list ]]; }
		;;
	*.rpm)
		rpm() { command rpm --force-debian --dbpath /run/rpm "$@"; }
		install_package() { rpm --upgrade --nodeps "$1"; }
		is_newer() { [[ $(rpm --query --queryformat '%{RELEASE}' scx-drfq) = 2 ]]; }
		remove_package() { rpm --erase scx-drfq; }
		kept=/etc/default/scx_drfq.rpmsave
		purge_package() { rm "$kept"; }
		is_known() { rpm --query scx-drfq > /dev/null; }
		;;
esac

[[ $(cat /proc/1/comm) = systemd ]] || fail "process 1 is $(cat /proc/1/comm)"
[[ -z $(files) ]] || fail "files from before: $(files)"
mount -t resctrl resctrl /sys/fs/resctrl
# The index of all manual pages takes minutes in an emulated machine.
rm -f /var/lib/man-db/auto-update
# Where the host is a container, it forbids packages to stop services.
rm -f /usr/sbin/policy-rc.d

install_package "$1"
! systemctl --quiet is-enabled scx_drfq.service 2> /dev/null || fail "the installation enabled the service"
! systemctl --quiet is-active scx_drfq.service || fail "the installation started the service"
echo "installed: neither enabled nor started"

sed -i 's/^SCX_DRFQ_OPTIONS=.*/SCX_DRFQ_OPTIONS="--mba on"/' /etc/default/scx_drfq
systemd-run --quiet --unit load "$3" copy --kib 32768
systemctl enable --now scx_drfq.service
until_true "the scheduler is not loaded" schedules
until_true "no resctrl group for the load" has_groups
until_true "no statistics" serves
echo "started: $(groups | wc -l) resctrl groups"
security=$(systemd-analyze security --no-pager scx_drfq.service || true)
grep -E '^✗|Overall' <<< "$security"
[[ $security =~ Overall.*\ OK ]] || fail "systemd-analyze security is worse than OK"

for unit in debtor creditor1 creditor2; do
	systemd-run --quiet --unit "$unit" --property CPUAffinity=0 "$3" hog
done
sleep 4
! debtor_waits || fail "equal services do not share a CPU"
scx_drfq charge-traffic --pid "$(systemctl show --property MainPID --value debtor.service)" --bytes 1000000000000
debtor_waits || fail "the traffic was not charged"

first=$(main_pid)
install_package "$2"
until_true "the upgrade did not restart the service" schedules
[[ $(main_pid) != "$first" ]] || fail "the old version still runs"
is_newer || fail "the version is the old one"
grep -q -- '--mba on' /etc/default/scx_drfq || fail "the upgrade lost the configuration"
until_true "no resctrl group after the upgrade" has_groups
debtor_waits || fail "the upgrade forgave a debt"
echo "upgraded: another process, configuration and debts kept"
systemctl stop debtor.service creditor1.service creditor2.service

second=$(main_pid)
old_groups=$(inodes)
kill -KILL "$second"
until_true "systemd did not restart the service" shows NRestarts 1
until_true "the scheduler is not loaded again" schedules
[[ $(main_pid) != "$second" ]] || fail "the killed process still runs"
until_true "no resctrl group after the restart" has_groups
left=$(comm -12 <(inodes) - <<< "$old_groups")
[[ -n $old_groups && -z $left ]] || fail "groups of the killed process are left: $(groups)"
until_true "no statistics after the restart" serves
echo "killed: restarted, $(wc -l <<< "$old_groups") resctrl groups of the killed process are gone"

remove_package
[[ $(cat /sys/kernel/sched_ext/state) = disabled ]] || fail "the removal left the scheduler loaded"
[[ -z $(groups) ]] || fail "the removal left groups: $(groups)"
[[ ! -e /run/scx ]] || fail "the removal left $(find /run/scx)"
left=$(files)
[[ $left = "$kept" ]] || fail "the removal left $left"
purge_package
[[ -z $(files) ]] || fail "the purge left $(files)"
! is_known || fail "the package is still known"
systemctl stop load.service
echo "removed: no file, group or socket is left"
