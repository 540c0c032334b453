# SPDX-License-Identifier: GPL-2.0-only
"""What a script in the VM prints: lines of JSON among other lines."""

import json


def json_lines(path):
    """The values of a file's lines that begin with a brace, in order. OSError: the file cannot be read."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]
