# SPDX-License-Identifier: GPL-2.0-only
# CPU shares follow weights on 2 CPUs (short form, scx_drfq alone).
exec tests/vm/scenario tests/scenarios/shares-2cpu.toml --short \
	--scheduler drfq --scheduler drfq-thesis
