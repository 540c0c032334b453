# SPDX-License-Identifier: GPL-2.0-only
# SIGKILL at 100 random moments ends agents with --mba on, every second time with their cleaners, beside another
# program's groups in resctrl: these stay byte for byte, and the last agent leaves nothing.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
guest=${DRFQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_drfq}/machine/guest
vm --machine xeon -- env "PATH=$guest:$PATH" python3 -B tests/vm/guest/killed.py \
	"$bin/scx_drfq" "${DRFQ_TEST_KILLS:-100}" "${DRFQ_TEST_SEED:-1}"
