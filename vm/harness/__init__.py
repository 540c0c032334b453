# SPDX-License-Identifier: GPL-2.0-only
"""Provisions stock Debian kernels and runs commands on them in QEMU."""
