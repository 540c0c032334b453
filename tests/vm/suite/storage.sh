# SPDX-License-Identifier: GPL-2.0-only
# The kernel's NVMe driver runs the modelled disk: what fio wrote it reads back, and the disk's log has every byte.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v fio > /dev/null || fail "fio is missing; run tools/setup"
vm --machine disk --storage-log "$out/log.csv" -- python3 -B tests/vm/guest/storage.py verify > "$out/measured"
python3 -B tests/vm/storage.py verify "$out/measured" "$out/log.csv"
