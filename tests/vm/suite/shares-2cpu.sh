# SPDX-License-Identifier: GPL-2.0-only
# CPU shares follow weights on 2 CPUs (short form: scx_drfq alone, one case; the others and pinned tasks are long).
exec tests/vm/scenario tests/scenarios/shares-2cpu.toml --short \
	--scheduler drfq --case "nice -5, 0 and 5"
