# SPDX-License-Identifier: GPL-2.0-only
"""What every part of the harness shares: the cache's place, errors, progress lines."""

import contextlib
import fcntl
import os
import pathlib
import sys


class VmError(Exception):
    """The harness (not the command inside the VM) failed; the text is one line that says what to do."""


def cache_root() -> pathlib.Path:
    """The directory of everything downloaded or built; `DRFQ_CACHE` overrides it."""
    own = os.environ.get("DRFQ_CACHE")
    if own:
        return pathlib.Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base).absolute() / "scx_drfq"


def say(text: str) -> None:
    """Prints a progress line; stdout belongs to the command inside the VM."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name: str):
    """Holds a lock of the cache, so that two runs never provision the same thing at once."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name}.lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that is preparing {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
