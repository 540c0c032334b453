# SPDX-License-Identifier: GPL-2.0-only
# A program that misuses the modelled disk harms neither the machine nor the kernel's driver after it.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v fio > /dev/null || fail "fio is missing; run tools/setup"
vm --machine disk --storage-log "$out/log.csv" -- python3 -B tests/vm/guest/bad_driver.py > "$out/measured"
python3 -B tests/vm/storage.py verify "$out/measured" "$out/log.csv"
