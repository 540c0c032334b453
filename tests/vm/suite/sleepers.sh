# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/experiments/sleepers.toml, without the peers.
exec tests/vm/experiment tests/experiments/sleepers.toml --short \
	--scheduler drfq
