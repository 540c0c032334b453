# SPDX-License-Identifier: GPL-2.0-only
# CPU shares follow weights on 2 CPUs (short form: scx_drfq alone, one ratio of each kind of weight).
exec tests/vm/scenario tests/scenarios/shares-2cpu.toml --short \
	--scheduler drfq --scheduler drfq-thesis --case "weights 1:3" --case "nice -5, 0 and 5"
