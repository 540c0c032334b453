#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command that sees a made-up machine of more CPUs than there are: a directory that the scx
tools take for `/`, whose sysfs tells of them. For loading only: the verifier knows the number of
CPUs and caches, so its work depends on them, and no virtual machine here has hundreds.

    made_up_cpus.py CPUS LLCS COMMAND [ARGUMENT ...]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

# The machine's own, beside the CPUs.
SHARED = ("proc", "dev", "run", "sys/fs", "sys/kernel", "sys/bus")


def write(root: pathlib.Path, cpus: int, llcs: int) -> None:
    for path in SHARED:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(f"/{path}")
    directory = root / "sys/devices/system/cpu"
    of_llc = cpus // llcs
    for cpu in range(cpus):
        cache = directory / f"cpu{cpu}/cache/index3"
        cache.mkdir(parents=True)
        first = cpu - cpu % of_llc
        (cache / "level").write_text("3\n")
        (cache / "shared_cpu_list").write_text(f"{first}-{first + of_llc - 1}\n")
    for name in ("online", "possible"):
        (directory / name).write_text(f"0-{cpus - 1}\n")


def main() -> int:
    cpus, llcs, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    print(f"made-up machine: {cpus} CPUs, {llcs} caches", flush=True)
    with tempfile.TemporaryDirectory() as root:
        write(pathlib.Path(root), cpus, llcs)
        return subprocess.run(command, env=os.environ | {"SCX_SYSFS_PREFIX": root}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
