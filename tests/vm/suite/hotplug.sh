# SPDX-License-Identifier: GPL-2.0-only
# A CPU that goes or comes makes the scheduler start anew with the CPUs that there are.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 -- "$exp" under --out "$out" -- bash tests/vm/guest/hotplug.sh
