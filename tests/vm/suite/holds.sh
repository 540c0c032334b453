# SPDX-License-Identifier: GPL-2.0-only
# The short form of tests/scenarios/holds.toml.
exec tests/vm/experiment tests/scenarios/holds.toml --short
