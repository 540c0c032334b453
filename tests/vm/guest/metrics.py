# SPDX-License-Identifier: GPL-2.0-only
"""Prometheus scrapes the agent beside 1,000 tasks in 200 cgroups.

The kernel's cpu.stat of each cgroup judges what Prometheus stored.
As root in the VM: metrics.py SCX_DRFQ DRFQ-LOAD PROMETHEUS SECONDS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from scheduler import ended, spin, start, wait

CGROUPS = pathlib.Path("/sys/fs/cgroup")
GROUPS, TASKS_EACH = 200, 5
TARGET, SERVER = "127.0.0.1:9877", "127.0.0.1:9090"
SCRAPE_S = 15
# docs/howto/metrics.md promises it.
MOST_SERIES = 5000
# A sample is at most 0.5 s old, and the two ends of the kernel's interval are read at other moments.
MOST_LATE_S = SCRAPE_S + 1
CONFIG = f"""
global:
  scrape_interval: {SCRAPE_S}s
  scrape_timeout: 10s
scrape_configs:
  - job_name: scx_drfq
    static_configs:
      - targets: ["{TARGET}"]
"""


def query(text):
    """The values of an instant query by their labels."""
    url = f"http://{SERVER}/api/v1/query?" + urllib.parse.urlencode({"query": text})
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    return [(entry["metric"], entry.get("values") or entry["value"]) for entry in found["data"]["result"]]


def usage_s(group):
    """The CPU time of a cgroup, as the kernel counts it."""
    fields = dict(line.split() for line in (group / "cpu.stat").read_text(encoding="ascii").splitlines())
    return int(fields["usage_usec"]) / 1e6


def main():
    program, load, prometheus, seconds = *sys.argv[1:4], int(sys.argv[4])
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    agent = start(program, "--metrics", TARGET)
    groups = [CGROUPS / f"tenant{number}" for number in range(GROUPS)]
    tenants = []
    for number, group in enumerate(groups):
        group.mkdir()
        # The first is the busiest: 5 x 0.5 %. The others have a tenth of that.
        sleep_us = 200_000 if number == 0 else 2_000_000
        command = f"echo $$ > {group}/cgroup.procs; exec {load} sleeper --run-us 1000 --sleep-us {sleep_us}"
        tenants += spin(TASKS_EACH, "sh", "-c", command)
    directory = pathlib.Path(tempfile.mkdtemp())
    (directory / "config.yml").write_text(CONFIG, encoding="ascii")
    with open(directory / "log", "wb") as log:
        server = subprocess.Popen(
            [
                prometheus,
                f"--config.file={directory}/config.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address={SERVER}",
            ],
            stderr=log,
        )
    wait("a first scrape", lambda: query("up == 1"))
    wait("every task in its cgroup", lambda: len(query("drfq_cgroup_tasks == 5")) == GROUPS)
    before, begin = usage_s(groups[0]), time.time()
    time.sleep(seconds)
    used, took = usage_s(groups[0]) - before, time.time() - begin

    ups = [value for _, values in query(f"up[{took:.0f}s]") for _, value in values]
    samples = max(
        int(float(value)) for _, values in query(f"scrape_samples_scraped[{took:.0f}s]") for _, value in values
    )
    slowest = max(float(value) for _, values in query(f"scrape_duration_seconds[{took:.0f}s]") for _, value in values)
    found = query(f'increase(drfq_cgroup_cpu_seconds_total{{cgroup="/tenant0"}}[{took:.0f}s])')
    stored = float(found[0][1][1])
    print(f"{len(ups)} scrapes, {samples} samples each at most, the slowest took {slowest:.2f} s")
    print(f"/tenant0: Prometheus has {stored:.2f} s of CPU time, the kernel {used:.2f} s")
    assert len(ups) >= took / SCRAPE_S - 1 and set(ups) == {"1"}, ups
    assert samples <= MOST_SERIES, samples
    assert abs(stored - used) <= used * MOST_LATE_S / took, (stored, used)
    log = (directory / "log").read_text(encoding="utf-8")
    assert "level=error" not in log and "level=warn" not in log, log

    server.terminate()
    server.wait()
    for tenant in tenants:
        tenant.kill()
    agent.terminate()
    ended(agent)


main()
