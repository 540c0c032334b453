# SPDX-License-Identifier: GPL-2.0-only
"""Gets what boots a VM into the cache: virtme-ng (PyPI, pinned), QEMU and kernels (Debian)."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
from typing import List

from . import kernels, qemu
from .common import Progress, VmError, cache_root, locked, say

VIRTME_NG = "1.42"


def _venv() -> pathlib.Path:
    return cache_root() / f"virtme-ng-{VIRTME_NG}"


def virtme_run() -> pathlib.Path:
    """The low-level runner of virtme-ng."""
    return _venv() / "bin" / "virtme-run"


def search_path() -> str:
    """PATH with the directories of modprobe and depmod, which virtme-ng calls."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _install(command: List[str]) -> None:
    """A step of virtme-ng's installation; its messages are shown only if it fails."""
    progress = Progress()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError as error:
        raise VmError(f"cannot install virtme-ng: {error.filename} is missing; run tools/setup") from error
    while True:
        try:
            messages, _ = process.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            progress.tell("installing virtme-ng")
    if process.returncode:
        for line in messages.decode(errors="replace").splitlines()[-10:]:
            say(f"pip: {line}")
        raise VmError(f"cannot install virtme-ng (exit status {process.returncode}); see the messages above")


def _ensure_virtme_ng() -> None:
    stamp = _venv() / ".complete"
    if stamp.exists():
        return
    with locked("virtme-ng"):
        if stamp.exists():
            return
        say(f"installing virtme-ng {VIRTME_NG}")
        _install([sys.executable, "-m", "venv", "--clear", str(_venv())])
        _install([str(_venv() / "bin" / "pip"), "install", "-q", "--disable-pip-version-check",
                  f"virtme-ng=={VIRTME_NG}"])
        stamp.touch()


def ensure(suite: str = qemu.PLAIN, kernel_names: List[str] = ()) -> None:
    """Gets what is missing, at once; instant when all is there. `suite`: of the QEMU that is wanted."""
    steps = [lambda: kernels.provision(list(kernel_names)), lambda: qemu.ensure(suite), _ensure_virtme_ng]
    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()
