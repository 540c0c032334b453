# SPDX-License-Identifier: GPL-2.0-only
# The scheduler loads on the oldest kernel, schedules, and unloads. Nearly every other test does so on the newest.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --kernel oldest -- "$exp" with-scheduler --out "$out" -- sleep 2
