# SPDX-License-Identifier: GPL-2.0-only
"""The QEMU that VMs run under: Debian trixie's, or a newer one for modelled machines, unpacked in the cache.

The host's QEMU may be too old. Before 8.2, a guest that patches its code often executes a stale translation and
panics, and each load of a sched_ext scheduler patches code. 7.2 loses timers with `-icount`. The package and all it
needs are unpacked beside each other and started through their dynamic loader, so nothing is installed.

Machines of vm/hardware need the plugin interface in its version 7 (QEMU 11), which trixie-backports has. Other VMs
do not use it, because it takes a fifth more CPU time for the same boot.
"""

import os
import pathlib
import shutil
import subprocess

from . import mirror
from .common import Progress, VmError, cache_root, locked, say

PLAIN = "trixie"
WITH_PLUGINS = "trixie-backports"
SUITES = (PLAIN, WITH_PLUGINS)
_LIBRARIES = "lib/x86_64-linux-gnu"
PACKAGES = ("qemu-system-x86", "qemu-system-common")


def _root(suite: str) -> pathlib.Path:
    return cache_root() / f"qemu-{suite}"


def command(suite: str) -> list[str]:
    """The words that start the QEMU of a suite, before its arguments; DRFQ_QEMU, if set, names another QEMU.

    It dies with us, however we end."""
    child = ["setpriv", "--pdeathsig", "KILL"]
    named = os.environ.get("DRFQ_QEMU")
    if named:
        return [*child, named]
    files = _root(suite) / "usr"
    return [
        *child,
        str(files / "lib64" / "ld-linux-x86-64.so.2"),
        "--library-path",
        str(files / _LIBRARIES),
        str(files / "bin" / "qemu-system-x86_64"),
        "-L",
        str(files / "share" / "seabios"),
        "-L",
        str(files / "share" / "qemu"),
    ]


def environment(suite: str) -> dict[str, str]:
    """Variables that the QEMU of a suite needs."""
    return {"QEMU_MODULE_DIR": str(_root(suite) / "usr" / _LIBRARIES / "qemu")}


def _unpack(debs: list, root: pathlib.Path) -> None:
    progress = Progress()
    for index, deb in enumerate(debs):
        progress.tell(f"unpacking QEMU: {index} of {len(debs)} packages")
        subprocess.run(["dpkg-deb", "--extract", str(deb), str(root)], check=True)


def ensure(suite: str) -> None:
    """Gets the QEMU of a suite if it is missing; instant when it is there."""
    named = os.environ.get("DRFQ_QEMU")
    if named:
        if not shutil.which(named):
            raise VmError(f"DRFQ_QEMU={named}: no such program; unset it to use Debian's QEMU")
        return
    if _root(suite).exists():
        return
    with locked("QEMU"):
        if _root(suite).exists():
            return
        say(f"getting QEMU of Debian {suite} (some 40 MB, once)")
        fresh = pathlib.Path(f"{_root(suite)}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            with mirror.index_of({PLAIN, suite}):
                _unpack(mirror.download_with_dependencies(suite, PACKAGES, "QEMU"), fresh)
        except (OSError, subprocess.CalledProcessError) as error:
            raise VmError(f"cannot unpack QEMU: {error}") from error
        fresh.rename(_root(suite))
