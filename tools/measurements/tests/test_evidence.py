# SPDX-License-Identifier: GPL-2.0-only
"""What a report of evidence must have of a machine."""

import importlib.util
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("evidence", ROOT / "tests/vm/evidence.py")
evidence = importlib.util.module_from_spec(spec)
spec.loader.exec_module(evidence)

MACHINES = {name: tomllib.loads((ROOT / f"vm/machines/{name}.toml").read_text()) for name in ("xeon", "laptop")}
SCHEDULERS = ("the kernel's scheduler", "scx_drfq --mba off", "scx_drfq --mba on --entity task")


def report(monitors=True, schedulers=SCHEDULERS):
    row = {"load_bytes": 100, "event_bytes": 99, "mbm_bytes": 98 if monitors else None}
    sets = [
        {"set": f"set {number}", "scheduler": scheduler, "loads": [{"dominant_share": 0.5}, {"dominant_share": 0.4}]}
        for number in range(3)
        for scheduler in schedulers
    ]
    return {
        "sensors": {
            "factors": [{"event": "reads", "bytes": 64}] if monitors else [],
            "rows": [row | {"load": load} for load in ("read", "write", "copy")],
        },
        "sets": {"missing": [], "rows": sets},
    }


class Lacking(unittest.TestCase):
    def test_a_whole_report_lacks_nothing(self):
        self.assertEqual(evidence.lacking(report(), MACHINES["xeon"]), [])
        of_laptop = report(monitors=False, schedulers=SCHEDULERS[:2])
        self.assertEqual(evidence.lacking(of_laptop, MACHINES["laptop"]), [])

    def test_a_sensor_that_gave_nothing_is_named(self):
        found = report()
        found["sensors"]["rows"][0]["event_bytes"] = None
        found["sensors"]["rows"][1]["mbm_bytes"] = 0
        del found["sensors"]["rows"][2]
        lacking = ["read: events", "write: MBM", "copy: own count", "copy: events", "copy: MBM"]
        self.assertEqual(evidence.lacking(found, MACHINES["xeon"]), lacking)
        found = report() | {"sensors": report()["sensors"] | {"factors": []}}
        self.assertEqual(evidence.lacking(found, MACHINES["xeon"]), ["bytes of an event by MBM"])

    def test_a_scheduler_that_gave_nothing_is_named(self):
        found = report(schedulers=SCHEDULERS[:2])
        lacking = ["3 sets under scx_drfq --mba on --entity task"]
        self.assertEqual(evidence.lacking(found, MACHINES["xeon"]), lacking)
        found = report()
        found["sets"]["rows"].pop()
        self.assertEqual(evidence.lacking(found, MACHINES["xeon"]), ["1 sets under scx_drfq --mba on --entity task"])

    def test_a_load_that_got_nothing_is_named(self):
        found = report()
        found["sets"]["rows"][0]["loads"][1]["dominant_share"] = 0
        lacking = ["1 loads of set 0 under the kernel's scheduler"]
        self.assertEqual(evidence.lacking(found, MACHINES["xeon"]), lacking)


if __name__ == "__main__":
    unittest.main()
