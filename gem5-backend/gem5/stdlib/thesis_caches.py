# SPDX-License-Identifier: GPL-2.0-only
"""The caches of the thesis' platform: table 5.1 of Gao, "Multi-resource Fair Scheduler for Linux", section 5.1."""

CLOCK = "3GHz"  # the CPUs'; latencies count its cycles
LINE_BYTES = 64  # of a block
# By level: size, ways and cycles of latency. The first level is of each core, the second is shared.
LEVELS = {"l1i": ("32KiB", 4, 2), "l1d": ("64KiB", 4, 2), "l2": ("2MiB", 8, 8)}
# The table has no limits of outstanding misses: these are ours.
MISSES = {"l1i": 32, "l1d": 32, "l2": 64}


def parameters(level):
    """The parameters of gem5's Cache for a level."""
    size, ways, cycles = LEVELS[level]
    return {
        "size": size,
        "assoc": ways,
        "tag_latency": cycles,
        "data_latency": cycles,
        "response_latency": cycles,
        "mshrs": MISSES[level],
        "tgts_per_mshr": 8,
        "write_buffers": MISSES[level],
    }
