# SPDX-License-Identifier: GPL-2.0-only
"""The first run on a pseudo-terminal: both schedulers are measured, then keys change what runs.

demo.py DRFQ_DEMO OUT WORD ...: WORDs are the arguments of `drfq-demo host` that name programs and machine.
The latencies are the service's own, by the guest's clock. Traffic is the kernel's count, held against the machine's.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guest"))
from screen import Terminal

# The machine is slow, and slower on a busy host. Nothing here depends on how slow.
PATIENCE_S = 1200
SETTLE_NS, MEASURE_NS = 2_000_000_000, 10_000_000_000


def lines(file):
    return [json.loads(line) for line in pathlib.Path(file).read_text("utf-8").splitlines()]


def show(demo, words):
    terminal = Terminal([demo, "host", *words], 100, 30)

    def until(pattern):
        terminal.until(pattern, limit_s=PATIENCE_S)

    def press(key, pattern):
        os.write(terminal.file, key.encode())
        until(pattern)

    until(r"Modelled: cores, caches")
    until(r"EEVDF: measuring")
    until(r"scx_drfq: measuring")
    until(r"now the keys are yours")
    until(r"└EEVDF─+└scx_drfq")
    print("\n".join(terminal.screen.lines()), flush=True)
    press("H", r"scx_drfq runs, 2 hogs")
    press("h", r"scx_drfq runs, 3 hogs")
    press("w", r"weights 200 : 100")
    press("W", r"weights 100 : 100")
    press("s", r"EEVDF runs")
    terminal.resize(80, 24)
    press("s", r"scx_drfq runs")
    os.write(terminal.file, b"q")
    assert terminal.wait() == 0
    assert terminal.screen.modes["1049"] is False, "the terminal was not restored"


def stretch(samples):
    """The latencies of a stretch that began when its first sample came, in order, and its seconds."""
    begin = samples[0]["at_ns"] + SETTLE_NS
    within = [s for s in samples if begin < s["at_ns"] <= begin + MEASURE_NS + 500_000_000]
    latencies = sorted(latency for sample in within for latency in sample["latencies_us"])
    return latencies, (within[-1]["at_ns"] - begin) / 1e9


def main():
    demo, out, *words = sys.argv[1:]
    files = {name: f"{out}/{name}.jsonl" for name in ("samples", "truth")}
    show(demo, [f"--samples={files['samples']}", f"--truth={files['truth']}", *words])
    samples, truth = lines(files["samples"]), lines(files["truth"])
    first = next(at for at, sample in enumerate(samples) if sample["scheduler"] == "Drfq")
    (before, before_s), (after, after_s) = stretch(samples), stretch(samples[first:])
    worst = [latencies[-max(len(latencies) // 100, 1)] / 1e3 for latencies in (before, after)]
    rates = len(before) / before_s, len(after) / after_s
    print(f"99 % below: {worst[0]:.1f} and {worst[1]:.1f} ms (n = {len(before)}, {len(after)} requests)")
    print(f"requests a second: {rates[0]:.0f} and {rates[1]:.0f}")
    assert worst[1] < worst[0] / 2, worst
    assert rates[1] > 0.95 * rates[0], rates
    for tenant, rmid in (("service", 1), ("hogs", 2)):
        counted = samples[-1][tenant]["bytes"]
        real = sum(
            entry["read_bytes"] + entry["write_bytes"]
            for line in truth
            for entry in line["rmids"]
            if entry["rmid"] == rmid
        )
        print(f"{tenant}: the kernel counted {counted} bytes, the machine moved {real}")
        # The machine goes on for a moment after the last sample.
        assert 0.95 * real < counted < 1.01 * real, (counted, real)


main()
