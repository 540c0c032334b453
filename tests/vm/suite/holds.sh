# SPDX-License-Identifier: GPL-2.0-only
# Delayed wake-up ends when V arrives, when the task is alone, and at the bound (short form).
exec tests/vm/scenario tests/scenarios/holds.toml --short
