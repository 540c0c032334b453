# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/scenarios/sleepers.toml, without the peers.
exec tests/vm/experiment tests/scenarios/sleepers.toml --short \
	--scheduler drfq
