# SPDX-License-Identifier: GPL-2.0-only
"""Debian's sjeng, which thinks until it is killed."""

from pathlib import Path

COMMAND = ["/usr/games/sjeng"]


def prepare():
    """Makes their directory. Of several that start at once, one would fail to, and end."""
    (Path.home() / ".sjeng").mkdir(exist_ok=True)


def think(player):
    """Lets a started sjeng, whose standard input is a text pipe, think."""
    player.stdin.write("xboard\nanalyze\n")
    player.stdin.flush()
