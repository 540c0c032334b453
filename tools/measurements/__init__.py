# SPDX-License-Identifier: GPL-2.0-only
"""Measurements as rows, and the pages made from them. The command is tools/results."""
