# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/experiments/pinned.toml, without the peers.
exec tests/vm/experiment tests/experiments/pinned.toml --short \
	--scheduler drfq
