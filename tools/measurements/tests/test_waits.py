# SPDX-License-Identifier: GPL-2.0-only
"""How long threads have waited for a CPU, by what the kernel tells of them."""

import importlib.util
import os
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("waits", ROOT / "tests/vm/guest/waits.py")
waits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(waits)


class Unended(unittest.TestCase):
    def unended(self, looks):
        """Asks for waits of more than 3 s. `looks` has what each second tells of each thread, or nothing of one."""
        clock = [0.0]

        def sleep(seconds):
            clock[0] += seconds

        def activity(tid):
            found = looks[min(int(clock[0]), len(looks) - 1)]
            if tid not in found:
                raise ProcessLookupError
            return found[tid]

        with (
            mock.patch.object(waits, "threads", return_value=sorted(looks[0])),
            mock.patch.object(waits, "activity", activity),
            mock.patch.object(waits.time, "sleep", sleep),
            mock.patch.object(waits.time, "monotonic", lambda: clock[0]),
        ):
            return waits.unended_waits_s(3)

    def test_a_thread_that_gets_no_cpu_is_told_and_no_other(self):
        first = {1: ("R", 5, 2), 2: ("R", 5, 2), 3: ("R", 5, 2), 4: ("S", 5, 2), 5: ("R", 5, 2)}
        # One waits, one runs on, one has run again, one sleeps, one ends.
        later = {1: ("R", 5, 2), 2: ("R", 6, 2), 3: ("R", 5, 3), 4: ("S", 5, 2)}
        found = self.unended([first, first, later])
        self.assertEqual(list(found), [1])
        self.assertGreaterEqual(found[1], 3)

    def test_waits_that_end_within_the_time_are_left_to_the_kernels_count(self):
        self.assertEqual(self.unended([{1: ("R", 5, 2)}, {1: ("R", 5, 2)}, {1: ("S", 6, 3)}]), {})

    def test_a_wait_counts_from_the_first_look_at_its_thread(self):
        waiting = dict.fromkeys(range(500), ("R", 5, 2))  # a look at all takes 2 s
        later = dict.fromkeys(range(500), ("R", 6, 3))
        # All get a CPU after 5 s, when the last threads have been seen for less than 3 s.
        found = self.unended([waiting] * 5 + [later])
        self.assertEqual(found, {})

    def test_the_kernel_tells_what_this_process_does(self):
        state, cpu_ns, runs = waits.activity(os.getpid())
        self.assertEqual(state, "R")
        self.assertGreater(min(cpu_ns, runs), 0)


if __name__ == "__main__":
    unittest.main()
