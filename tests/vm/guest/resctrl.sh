# SPDX-License-Identifier: GPL-2.0-only
# Mounts resctrl and runs the check: resctrl.sh DRFQ-RESCTRL-CHECK run|wrap MIB
set -e
mount -t resctrl -o debug resctrl /sys/fs/resctrl
"$@"
