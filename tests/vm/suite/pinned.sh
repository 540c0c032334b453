# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/scenarios/pinned.toml, without the peers.
exec tests/vm/experiment tests/scenarios/pinned.toml --short \
	--scheduler drfq
