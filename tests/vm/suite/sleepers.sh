# SPDX-License-Identifier: GPL-2.0-only
# Tasks that sleep wake up in time and get no more than their share (short form, one of five cases, scx_drfq alone).
exec tests/vm/scenario tests/scenarios/sleepers.toml --short \
	--scheduler drfq --case "0.5 ms every 10 ms"
