# SPDX-License-Identifier: GPL-2.0-only
# Delayed wake-up ends when V arrives, for injected debts and for reads of a disk (short form, two of four cases).
exec tests/vm/scenario tests/scenarios/holds.toml --short \
	--case "released by V" --case "direct reads"
