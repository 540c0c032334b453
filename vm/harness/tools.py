# SPDX-License-Identifier: GPL-2.0-only
"""The programs that boot a VM: virtme-ng (PyPI) and virtiofsd (crate), pinned and kept in the cache."""

import os
import pathlib
import shutil
import subprocess
import sys

from . import qemu
from .common import VmError, cache_root, locked, say

VIRTME_NG = "1.42"
VIRTIOFSD = "1.14.0"


def _venv() -> pathlib.Path:
    return cache_root() / f"virtme-ng-{VIRTME_NG}"


def virtme_run() -> pathlib.Path:
    """The low-level runner of virtme-ng."""
    return _venv() / "bin" / "virtme-run"


def _cargo_root() -> pathlib.Path:
    return cache_root() / f"virtiofsd-{VIRTIOFSD}"


def search_path() -> str:
    """PATH with virtiofsd first: virtme-ng looks it up there."""
    return os.pathsep.join([str(_cargo_root() / "bin"), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _install(what: str, command: list, env: dict = None) -> None:
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=2, env=env)
    except FileNotFoundError as error:
        raise VmError(f"cannot install {what}: {error.filename} is missing; run tools/setup") from error
    except subprocess.CalledProcessError as error:
        raise VmError(f"cannot install {what} (exit status {error.returncode}); see the messages above") from error


def ensure(suite: str = qemu.PLAIN) -> None:
    """Installs what is missing; instant when all is there. suite: of the QEMU that is wanted."""
    qemu.ensure(suite)
    stamp = _venv() / ".complete"
    virtiofsd = _cargo_root() / "bin" / "virtiofsd"
    if stamp.exists() and virtiofsd.exists():
        return
    with locked("tools"):
        if not stamp.exists():
            say(f"installing virtme-ng {VIRTME_NG}")
            _install("virtme-ng", [sys.executable, "-m", "venv", "--clear", str(_venv())])
            _install("virtme-ng", [str(_venv() / "bin" / "pip"), "install", "-q", "--disable-pip-version-check",
                                   f"virtme-ng=={VIRTME_NG}"])
            stamp.touch()
        if not virtiofsd.exists():
            say(f"building virtiofsd {VIRTIOFSD} (some minutes, once)")
            target = cache_root() / "virtiofsd-build"
            _install("virtiofsd", ["cargo", "install", "-q", "--locked", "--version", f"={VIRTIOFSD}",
                                   "--root", str(_cargo_root()), "virtiofsd"],
                     dict(os.environ, CARGO_TARGET_DIR=str(target)))
            shutil.rmtree(target, ignore_errors=True)
