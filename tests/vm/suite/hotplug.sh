# SPDX-License-Identifier: GPL-2.0-only
# When a CPU goes offline or online, the scheduler loads again with the CPUs that are online.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 -- "$exp" with-scheduler --out "$out" -- bash tests/vm/guest/hotplug.sh
