# SPDX-License-Identifier: GPL-2.0-only
"""Memory is charged on the first start, and by what `calibrate` has measured on the next, which also throttles.

calibrate.py SCX_DRFQ SECONDS, as root in the modelled machine, with its guest programs in the PATH. Prints a line of
JSON with the estimate and the calibration, which tests/vm/calibration.py compares with the machine's own count.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tomllib

from scheduler import PATIENCE_S, stats, wait

SCX_DRFQ, SECONDS = sys.argv[1:]
STORED = "/var/lib/scx_drfq/calibration.toml"
RESCTRL = "/sys/fs/resctrl"


def first_line(mounts):
    """Starts the scheduler without options, which `mounts` resctrl or not. Returns what it says, and its statistics."""
    agent = subprocess.Popen([SCX_DRFQ], stderr=subprocess.PIPE, text=True)
    system = wait("the scheduler", lambda: agent.poll() is None and stats())["system"]
    assert os.path.exists(f"{RESCTRL}/info") == mounts, system["mba"]
    refused = subprocess.run([SCX_DRFQ, "calibrate", "--seconds", SECONDS], check=False, capture_output=True, text=True)
    assert refused.returncode == 1 and "stop scx_drfq" in refused.stderr, refused
    agent.send_signal(signal.SIGINT)
    text = agent.communicate(timeout=PATIENCE_S)[1]
    assert agent.returncode == 0, text
    assert not os.path.exists(f"{RESCTRL}/info"), "resctrl is still mounted"
    return text, system


def main():
    text, system = first_line(mounts=False)
    estimate = system["mem_bytes_per_s"]
    assert estimate > 0 and "estimate" in text and "scx_drfq calibrate" in text, text
    assert "--mba auto does not throttle: when memory is full is not known" in text, text
    assert system["mba"]["state"] == "off", system["mba"]
    subprocess.run(["report_ground_truth"], check=True)
    subprocess.run([SCX_DRFQ, "calibrate", "--seconds", SECONDS], check=True)
    subprocess.run(["report_ground_truth"], check=True)
    # Nothing of it is left in resctrl, and resctrl itself is as it was: not mounted.
    assert not glob.glob(f"{RESCTRL}/drfq*") and not os.path.exists(f"{RESCTRL}/info"), os.listdir(RESCTRL)
    assert os.stat(STORED).st_mode & 0o777 == 0o600
    with open(STORED, "rb") as file:
        calibration = tomllib.load(file)
    text, system = first_line(mounts=True)
    assert system["mem_bytes_per_s"] == calibration["bytes_per_s"] and "measured on" in text, text
    assert "calibrate" not in text and system["mba"]["state"] == "on", (text, system["mba"])
    print(json.dumps({"estimate": estimate, "calibration": calibration}), flush=True)


main()
