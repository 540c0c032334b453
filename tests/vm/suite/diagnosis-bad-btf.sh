# SPDX-License-Identifier: GPL-2.0-only
# A kernel whose BTF is malformed gets a plain diagnosis.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --kernel bad-btf -- bash tests/vm/guest/diagnosis.sh "$bin/scx_drfq" 'are malformed'
