# SPDX-License-Identifier: GPL-2.0-only
"""What every part of the harness shares: the cache's place, errors, progress lines."""

import contextlib
import fcntl
import os
import pathlib
import sys
import time


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
    # One write, so that lines of two threads do not mix.
    sys.stderr.write(f"vm: {text}\n")
    sys.stderr.flush()


class Progress:
    """Says what a long step waits for, first after `after_s` seconds and then every `every_s` seconds."""

    def __init__(self, after_s: float = 3, every_s: float = 5) -> None:
        self._began = time.monotonic()
        self._next = self._began + after_s
        self._every_s = every_s

    def tell(self, what: str) -> None:
        """Prints `what` and the seconds so far, if a line is due."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            say(f"{what} ({now - self._began:.0f} s so far)")


@contextlib.contextmanager
def locked(name: str):
    """Holds a lock of the cache, so that two runs never provision the same thing at once."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name}.lock", "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting until another step or run has prepared {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
