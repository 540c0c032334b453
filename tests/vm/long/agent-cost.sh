# SPDX-License-Identifier: GPL-2.0-only
# The instructions of an agent that shares memory among 79 groups and 1,000 tasks, by the machine's own counter.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
# 79 groups, the default group, a class for each of seven levels, and an id that is left to other programs.
sed 's/^rmids = .*/rmids = 88/' vm/machines/xeon.toml > "$out/machine.toml"
vm --machine "$out/machine.toml" -- env "PATH=$cache/machine/guest:$PATH" \
	python3 -B tests/vm/guest/agent_cost.py "$bin/scx_drfq"
