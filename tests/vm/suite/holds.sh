# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/experiments/holds.toml.
exec tests/vm/experiment tests/experiments/holds.toml --short
