# SPDX-License-Identifier: GPL-2.0-only
"""How the charges for network traffic are judged."""

import contextlib
import importlib.util
import io
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("network", ROOT / "tests/vm/network.py")
network = importlib.util.module_from_spec(spec)
spec.loader.exec_module(network)

MIB = 1 << 20


def right(case, wrong=0, unowned=0, idle=0):
    """Judges a case in which each card moves 8 MiB, and so many bytes are charged wrong or to no task."""
    row = {"case": case, "cards": {"left": 8 * MIB, "right": 8 * MIB}, "idle": idle}
    row |= {"charged": {"left": 8 * MIB - wrong, "right": 8 * MIB}}
    row |= {"net_bytes": 16 * MIB, "net_charged_bytes": 16 * MIB - unowned}
    with contextlib.redirect_stdout(io.StringIO()):
        return network.judge(row)[0]


class Charges(unittest.TestCase):
    def test_a_transfer_may_lack_what_opens_a_connection_and_no_more(self):
        self.assertTrue(right("a stream", wrong=5000, unowned=5000))
        self.assertFalse(right("a stream", wrong=5001))
        self.assertFalse(right("a stream", wrong=-5001))
        self.assertFalse(right("a stream", unowned=5001))
        self.assertFalse(right("a stream", idle=5001))

    def test_tags_of_a_vlan_come_on_top(self):
        tags = 1.5 * 8 * MIB / 1518 * 4
        self.assertTrue(right(network.VLAN, wrong=4999 + tags, unowned=4999 + tags))
        self.assertFalse(right(network.VLAN, wrong=5001 + tags))

    def test_of_a_case_that_is_watched_each_socket_may_hold_a_batch(self):
        self.assertTrue(right("iperf3, 1 stream", wrong=0.0079 * 16 * MIB, unowned=-4 * 16384))
        self.assertFalse(right("iperf3, 1 stream", wrong=0.0081 * 16 * MIB))
        self.assertFalse(right("iperf3, 1 stream", unowned=-4 * 16384 - 1))


if __name__ == "__main__":
    unittest.main()
