# SPDX-License-Identifier: GPL-2.0-only
# 20 s of stress-ng on the newest kernel; the long form is 10 min on both.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --cpus 2 -- "$exp" under --out "$out" -- bash tests/vm/guest/stress.sh 20
