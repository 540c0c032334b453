# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/scenarios/dominant.toml, without the peers.
exec tests/vm/experiment tests/scenarios/dominant.toml --short \
	--scheduler memoryless --scheduler dovetailing --scheduler delta-bounded
