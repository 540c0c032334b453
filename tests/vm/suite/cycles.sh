# SPDX-License-Identifier: GPL-2.0-only
# 20 load and unload cycles leave no BPF object behind.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm -- "$exp" cycles 20 --out "$out"
