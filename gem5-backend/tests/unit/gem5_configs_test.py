#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The configurations of gem5/, built of a stand-in's objects (gem5/stand-in/python.py).

usage: gem5_configs_test.py DRFQ_MC
"""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

GEM5 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gem5")
sys.path[:0] = [os.path.join(GEM5, "configs")]
specification = importlib.util.spec_from_file_location("stand_in", os.path.join(GEM5, "stand-in", "python.py"))
stand_in = importlib.util.module_from_spec(specification)
specification.loader.exec_module(stand_in)
stand_in.install()
import system  # noqa: E402

MEMORY = json.loads(subprocess.run([sys.argv.pop(1), "memory"], capture_output=True, text=True, check=True).stdout)


def shape(cache):
    return type(cache).__name__, cache.size, cache.assoc, cache.tag_latency, cache.data_latency


class Caches(unittest.TestCase):
    def test_the_thesis_caches_have_the_shapes_of_table_5_1(self):
        built = system.build(MEMORY, 4, "thesis").system
        self.assertEqual([shape(c) for c in built.l1], [("DrfqCache", "64KiB", 4, 2, 2)] * 4)
        self.assertEqual(shape(built.l2), ("DrfqCache", "2MiB", 8, 8, 8))
        self.assertEqual(built.cache_line_size, system.thesis_caches.LINE_BYTES)
        self.assertEqual(shape(system.DrfqCache(**system.thesis_caches.parameters("l1i")))[1:], ("32KiB", 4, 2, 2))

    def test_the_thesis_latencies_count_cycles_of_the_cpus(self):
        built = system.build(MEMORY, 2, "thesis").system
        for part in [*built.l1, built.l2bus, built.l2]:
            self.assertEqual(part.clk_domain.clock, "3GHz")

    def test_plain_caches_are_gem5s_own(self):
        for kind, name, prefetcher in [
            ("plain", "Cache", "StridePrefetcher"),
            ("labelled", "DrfqCache", "DrfqStridePrefetcher"),
            ("thesis", "DrfqCache", "DrfqStridePrefetcher"),
        ]:
            built = system.build(MEMORY, 1, kind, prefetch=True).system
            self.assertEqual([type(c).__name__ for c in (*built.l1, built.l2)], [name] * 2, kind)
            self.assertEqual(type(built.l2.prefetcher).__name__, prefetcher)


if __name__ == "__main__":
    unittest.main()
