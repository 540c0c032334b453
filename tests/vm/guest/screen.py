# SPDX-License-Identifier: GPL-2.0-only
"""A program on a pseudo-terminal, and what its screen shows. It knows the sequences that scx_drfq top writes."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# CSI sequences, other escapes, and single characters.
TOKEN = re.compile(r"\x1b\[([?<>]?)([0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b.|.", re.DOTALL)


class Screen:
    """The characters of a terminal, and the styles that were used."""

    def __init__(self, columns: int, rows: int) -> None:
        self.resize(columns, rows)
        self.styles: set[str] = set()
        self.partial = ""
        self.modes: dict[str, bool] = {}

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.x = self.y = 0
        self.cells = [[" "] * columns for _ in range(rows)]

    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, text: str) -> None:
        text = self.partial + text
        # A read may end within a sequence.
        cut = re.search(r"\x1b(\[[?<>]?[0-9;]*)?$", text)
        self.partial = cut[0] if cut else ""
        for token in TOKEN.finditer(text[: len(text) - len(self.partial)]):
            if token[3]:
                self.control(token[1], token[2], token[3])
            elif not token[0].startswith("\x1b") and token[0] >= " ":
                if self.x < self.columns and self.y < self.rows:
                    self.cells[self.y][self.x] = token[0]
                self.x += 1

    def control(self, private: str, arguments: str, final: str) -> None:
        numbers = [int(word or 0) for word in arguments.split(";")]
        if private:
            for number in numbers:
                self.modes[str(number)] = final == "h"
        elif final == "H":
            self.y, self.x = max(numbers[0], 1) - 1, max((numbers + [1])[1], 1) - 1
        elif final == "J":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "m":
            self.styles.update(arguments.split(";"))
        elif final in "ABCD":
            step = max(numbers[0], 1)
            self.y += {"A": -step, "B": step}.get(final, 0)
            self.x += {"C": step, "D": -step}.get(final, 0)


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, command: list[str], columns: int, rows: int, **environment: str) -> None:
        self.screen = Screen(columns, rows)
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], command, dict(os.environ, TERM="xterm-256color", **environment))
        self.resize(columns, rows)
        self.decoder = __import__("codecs").getincrementaldecoder("utf-8")("replace")

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def read(self, wait_s: float) -> bool:
        """Reads what the program has written. Returns whether it still runs."""
        if not select.select([self.file], [], [], wait_s)[0]:
            return True
        try:
            data = os.read(self.file, 1 << 16)
        except OSError:
            return False
        self.screen.feed(self.decoder.decode(data))
        return bool(data)

    def until(self, pattern: str, absent: bool = False, limit_s: float = 120) -> re.Match | None:
        """Waits until the screen has the pattern, or no longer has it."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            text = "\n".join(self.screen.lines())
            found = re.search(pattern, text, re.MULTILINE)
            if (found is None) == absent:
                return found
            self.read(0.2)
        raise AssertionError(f"{'still' if absent else 'no'} {pattern!r} on the screen:\n" + text)

    def press(self, keys: str, pattern: str, absent: bool = False) -> re.Match | None:
        os.write(self.file, keys.encode())
        return self.until(pattern, absent)

    def wait(self) -> int:
        """Waits until the program ends; its exit status."""
        while self.read(5):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
