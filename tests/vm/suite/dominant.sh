# SPDX-License-Identifier: GPL-2.0-only
# A memory-heavy and a CPU-heavy task get equal dominant shares (short form: the default variant and the thesis').
exec tests/vm/scenario tests/scenarios/dominant.toml --short \
	--scheduler memoryless --scheduler delta-bounded
