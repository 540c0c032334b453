# SPDX-License-Identifier: GPL-2.0-only
# A memory-heavy and a CPU-heavy task get equal dominant shares under each variant of DRFQ (short form).
exec tests/vm/scenario tests/scenarios/dominant.toml --short \
	--scheduler memoryless --scheduler dovetailing --scheduler delta-bounded
