# SPDX-License-Identifier: GPL-2.0-only
"""Records an hour, in which a noisy neighbour comes and goes: recording_hour.py SCX_DRFQ DRFQ-LOAD OUT.

As root in the VM. The kernel's account of the recorder's CPU time gives what the recording costs.
"""

import pathlib
import subprocess
import sys
import time

from scheduler import ended, spin, start, wait

CGROUPS = pathlib.Path("/sys/fs/cgroup")
BEFORE_S, NOISY_S, AFTER_S = 1800, 300, 1500


def cpu_s(pid):
    """The CPU time of a process in user and kernel mode."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def tenant(name, count, *command):
    """Processes in a cgroup of their own."""
    group = CGROUPS / name
    group.mkdir()
    return spin(count, "sh", "-c", f"echo $$ > {group}/cgroup.procs; exec " + " ".join(command))


def let_pass(seconds):
    """Sleeps, and says every five minutes that it does."""
    for _ in range(seconds // 300):
        time.sleep(300)
        print(f"{time.monotonic():.0f} s after boot", flush=True)


def main():
    program, load, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    agent = start(program)
    service = tenant("service", 4, load, "sleeper", "--run-us", "2000", "--sleep-us", "100000")
    file = pathlib.Path("/tmp/hour.rec")
    recorder = subprocess.Popen([program, "record", "--max-size", "200M", str(file)])
    wait("a recording", lambda: file.exists() and file.stat().st_size > 0)
    begin, spent = time.time(), cpu_s(recorder.pid)
    let_pass(BEFORE_S)
    came = time.time()
    noisy = tenant("noisy", 3, load, "--name", "neighbour", "hog")
    let_pass(NOISY_S)
    for process in noisy:
        process.kill()
        process.wait()
    let_pass(AFTER_S)
    took, spent = time.time() - begin, cpu_s(recorder.pid) - spent
    recorder.terminate()
    ended(recorder)
    size = file.stat().st_size
    print(f"{took:.0f} s recorded in {size} bytes; the recorder took {1000 * spent / took:.2f} ms of CPU time a second")

    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(came))
    clock = time.monotonic()
    said = subprocess.run(
        [program, "report", str(file), "--at", at, "--output", str(out / "report.html")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    print(f"report, {time.monotonic() - clock:.1f} s:", said)
    assert "noisy" in said, said
    clock = time.monotonic()
    with subprocess.Popen(
        [program, "top", "--replay", str(file), "--at", at, "--plain"], stdout=subprocess.PIPE, text=True
    ) as replay:
        for line in replay.stdout:
            if "neighbour" in line:
                break
        else:
            raise SystemExit("FAILED: the replay does not show the neighbour")
        replay.kill()
    print(f"replay at that time: first picture with a load after {time.monotonic() - clock:.1f} s")
    for process in service:
        process.kill()
    agent.terminate()
    ended(agent)


main()
