# SPDX-License-Identifier: GPL-2.0-only
# Pinned tasks keep their shares (short form, scx_drfq alone).
exec tests/vm/scenario tests/scenarios/pinned.toml --short \
	--scheduler drfq
