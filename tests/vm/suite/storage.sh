# SPDX-License-Identifier: GPL-2.0-only
# The kernel's NVMe driver runs the modelled disk: what fio wrote it reads back, and the disk's log has every byte.
# Without the guest, a replay of what timing depends on gives the same times.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v fio > /dev/null || fail "fio is missing; run tools/setup"
vm --machine disk --storage-log "$out/log.csv" --input-log "$out/input.log" -- \
	python3 -B tests/vm/guest/storage.py verify > "$out/measured"
python3 -B tests/vm/storage.py verify "$out/measured" "$out/log.csv"
vm/vm replay "$out/input.log" "$out/replayed.csv"
python3 -B tests/vm/storage.py replay "$out/log.csv" "$out/replayed.csv"
