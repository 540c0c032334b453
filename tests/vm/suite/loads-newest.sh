# SPDX-License-Identifier: GPL-2.0-only
# The scheduler loads on the newest kernel, schedules, and unloads.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --kernel newest -- "$exp" with-scheduler --out "$out" -- sleep 2
