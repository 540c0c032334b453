# SPDX-License-Identifier: GPL-2.0-only
# 6 cycles of loading and unloading leave no BPF object.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm -- "$exp" cycles 6 --out "$out"
