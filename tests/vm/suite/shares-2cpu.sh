# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/scenarios/shares-2cpu.toml, without the peers.
exec tests/vm/experiment tests/scenarios/shares-2cpu.toml --short \
	--scheduler drfq --scheduler drfq-thesis
