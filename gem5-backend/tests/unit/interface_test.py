#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares PROTOCOL.md, which publishes the registers and the socket protocol, with the tables that programs read."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "interface"))
from tables import DRAM_PRESETS, OP, PROTOCOL, REGISTERS, STATUS, record  # noqa: E402

PAGE = (ROOT / "PROTOCOL.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of each row of the table whose heading has these first cells."""
    start = PAGE.index("| " + " | ".join(heading) + " |")
    lines = PAGE[start:].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class DramPresets(unittest.TestCase):
    def test_every_preset_has_the_same_keys(self):
        keys = set(next(iter(DRAM_PRESETS.values())))
        for name, preset in DRAM_PRESETS.items():
            self.assertEqual(set(preset), keys, name)

    def test_times_add_up_to_the_recorded_sums(self):
        # A changed value must not pass unnoticed.
        for name, total in (("lpddr2-1066-x32", 4295132), ("ddr4-2400", 8333705), ("ddr5-4800", 4403944)):
            times = [value for key, value in DRAM_PRESETS[name].items() if key.endswith("_ps")]
            self.assertEqual(sum(times), total, name)

    def test_peak_bandwidth_is_that_of_the_name(self):
        # Transfers per ns times the bytes of the bus; the clock is rounded to picoseconds.
        for name, bytes_per_ns in (("lpddr2-1066-x32", 1.066 * 4), ("ddr4-2400", 2.4 * 8), ("ddr5-4800", 4.8 * 4)):
            preset = DRAM_PRESETS[name]
            self.assertAlmostEqual(preset["burst_bytes"] * 1000 / preset["burst_ps"], bytes_per_ns, delta=0.04)


class Published(unittest.TestCase):
    def test_registers_have_the_published_place_count_and_access(self):
        page = [
            (int(offset, 16), name, count, access)
            for offset, name, count, access, _ in rows(["offset", "name", "count", "access"])
        ]
        table = [(r["offset"], name, str(r["count"]), r["access"]) for name, r in REGISTERS["register"].items()]
        self.assertEqual(page, table)

    def test_identity_and_limits_are_published(self):
        meaning = {name: text for _, name, _, _, text in rows(["offset", "name", "count", "access"])}
        self.assertEqual(int(meaning["id"], 16), REGISTERS["identity"]["id"])
        self.assertEqual(int(meaning["version"]), REGISTERS["identity"]["version"])
        self.assertIn(f"`pids` is {REGISTERS['limits']['pids']};", PAGE)
        self.assertIn(f"at most {REGISTERS['limits']['cores_max']}.", PAGE)

    def test_header_has_the_published_layout(self):
        page = {name: [int(offset), int(size)] for offset, size, name, _ in rows(["offset", "bytes", "field"])}
        self.assertEqual(page, PROTOCOL["layout"]["header"])
        self.assertIn(f"a header of {record('header').size} bytes", PAGE)
        self.assertIn(f"{record('header').size} to {PROTOCOL['frame_bytes_max']}", PAGE)

    def test_version_and_frame_bits_are_published(self):
        self.assertIn(f"socket protocol, version {PROTOCOL['version']}\n", PAGE)
        self.assertIn(f"a reply adds {PROTOCOL['reply_bit']:#x}", PAGE)
        self.assertIn(f"a pushed event {PROTOCOL['reply_bit'] | PROTOCOL['event_bit']:#x}", PAGE)

    def test_operations_have_the_published_numbers(self):
        self.assertEqual({row[1]: int(row[0]) for row in rows(["op", "name"])}, OP)

    def test_statuses_have_the_published_numbers(self):
        self.assertEqual({row[1]: int(row[0]) for row in rows(["status", "name"])}, STATUS)

    def test_access_results_are_the_first_statuses(self):
        results = REGISTERS["access_result"]
        self.assertEqual({name: STATUS[name] for name in results}, results)

    def test_records_have_the_published_fields(self):
        for title, layout in (("Batch record", "batch_record"), ("Demand record", "demand_record")):
            text = re.search(rf"\*\*{title}\*\*: (.*?)\.\s", PAGE, re.DOTALL).group(1)
            fields = re.findall(r"`(\w+)`\s+\((\d+)", text)
            table = [(name, str(size)) for name, (_, size) in PROTOCOL["layout"][layout].items()]
            self.assertEqual(fields, table)
            self.assertIn(f"records of {record(layout).size} bytes", PAGE)

    def test_the_page_has_the_limits_of_the_tables(self):
        limits = PROTOCOL["limits"]
        self.assertEqual(limits["advance_ps_max"], 10**13)
        self.assertEqual((limits["subscribe_ps_min"], limits["subscribe_ps_max"]), (10**8, 10**13))
        for text in (
            "at most 10^13",
            "10^8 to 10^13",
            f"1 to {limits['demand_outstanding_lines_max']}",
            f"0 to {limits['demand_write_percent_max']}",
        ):
            self.assertIn(text, PAGE)


if __name__ == "__main__":
    unittest.main()
