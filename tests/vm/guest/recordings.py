# SPDX-License-Identifier: GPL-2.0-only
"""Records the scheduler, kills the recorder, and reads the recording. As root in the VM: recordings.py SCX_DRFQ OUT

The kernel's own count of CPU time, in schedstat, judges what was recorded and what the metrics tell.
"""

import csv
import io
import pathlib
import re
import socket
import subprocess
import sys
import time

from scheduler import ended, spin, start, wait

DRFQ, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
FILE = pathlib.Path("/tmp/r.rec")
METRICS = "/run/metrics"


def cpu_ns(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def scx_drfq(*arguments):
    return subprocess.run([DRFQ, *arguments], capture_output=True, text=True, check=True)


def record(*options):
    before = FILE.stat().st_size if FILE.exists() else 0
    recorder = subprocess.Popen([DRFQ, "record", "--interval", "0.2", *options, str(FILE)])
    wait("snapshots in the file", lambda: FILE.exists() and FILE.stat().st_size > before + 3000)
    return recorder


def scrape():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(METRICS)
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 200 "), answer[:200]
    return answer.split("\r\n\r\n", 1)[1]


def spinners_cpu_s(metrics):
    """CPU time of the spinners' cgroup."""
    return float(re.search(r'cgroup_cpu_seconds_total\{cgroup="/spin"\} (\S+)', metrics)[1])


def rows():
    return list(csv.DictReader(io.StringIO(scx_drfq("export", str(FILE)).stdout)))


agent = start(DRFQ, "--metrics", f"unix:{METRICS}")
spinners = spin(2)
group = pathlib.Path("/sys/fs/cgroup/spin")
if not group.parent.joinpath("cgroup.controllers").exists():
    subprocess.run(["mount", "-t", "cgroup2", "none", str(group.parent)], check=True)
group.mkdir()
for process in spinners:
    group.joinpath("cgroup.procs").write_text(str(process.pid), encoding="ascii")
time.sleep(1)

first, kernel_first = scrape(), sum(cpu_ns(process.pid) for process in spinners)
recorder = record()
recorder.kill()
recorder.wait()
killed = len({row["time_ns"] for row in rows()})
recorder = record("--max-size", "10M")
time.sleep(10)
second, kernel_second = scrape(), sum(cpu_ns(process.pid) for process in spinners)
recorder.terminate()
ended(recorder)

table = rows()
times = sorted({int(row["time_ns"]) for row in table})
assert killed >= 1 and len(times) > killed, (killed, len(times))
spinner = [row for row in table if row["pid"] == str(spinners[0].pid)]
assert len(spinner) == len(times), (len(spinner), len(times))
recorded = int(spinner[-1]["cpu_ns"]) - int(spinner[0]["cpu_ns"])
span = times[-1] - times[0]
print(f"{len(times)} snapshots, {FILE.stat().st_size} bytes, {span / 1e9:.1f} s, spinner {recorded / 1e9:.2f} s")
assert 0 < recorded <= span
# Each row's share of a CPU over its interval adds up to what the kernel counted in between.
charged = int(spinner[-1]["charged_ns"]) - int(spinner[0]["charged_ns"])
assert abs(charged - recorded) < 0.05 * recorded + 20e6, (charged, recorded)
# The scrape and the kernel are read at different moments.
told, counted = spinners_cpu_s(second) - spinners_cpu_s(first), (kernel_second - kernel_first) / 1e9
print(f"metrics {told:.2f} s, kernel {counted:.2f} s")
assert counted > 5 and abs(told - counted) < 0.05 * counted + 0.5, (told, counted)

lines = scx_drfq("export", "--format", "jsonl", str(FILE)).stdout.splitlines()
assert len(lines) == len(times)
at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(times[len(times) // 2] // 10**9 + 1))
page = OUT / "report.html"
said = scx_drfq("report", str(FILE), "--at", at, "--output", str(page)).stdout
print(said)
assert said.startswith("At ") and "</html>" in page.read_text(encoding="utf-8")
shown = scx_drfq("top", "--replay", str(FILE), "--plain").stdout
assert shown.count("PID") == len(times), (shown.count("PID"), len(times))
# A file that ends in the middle of a frame is read up to there.
FILE.write_bytes(FILE.read_bytes()[:-7])
assert len({row["time_ns"] for row in rows()}) == len(times) - 1

(OUT / "metrics.txt").write_text(second, encoding="utf-8")
agent.terminate()
ended(agent)
assert not pathlib.Path(METRICS).exists()
for process in spinners:
    process.kill()
print("ok: recording, report, export, replay, metrics")
