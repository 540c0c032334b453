# SPDX-License-Identifier: GPL-2.0-only
# The instructions of an agent that shares memory among as many groups as the hardware monitors and 1,000 tasks.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine xeon -- env "PATH=$cache/machine/guest:$PATH" python3 -B tests/vm/guest/agent_cost.py \
	"$bin/scx_drfq" | tee "$out/log"
